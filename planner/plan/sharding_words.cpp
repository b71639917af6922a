#include "planner/plan/sharding_words.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "profiles/text.hpp"

namespace stagecraft {

namespace {

struct OtherShardingName {
  std::string_view name;
  Sharding sharding;
};

/// DeepSpeed's stages, FSDP's strategies (torch/distributed/fsdp/api.py) and Megatron Core's
/// --data-parallel-sharding-strategy.
constexpr std::array other_sharding_names{
    OtherShardingName{"ddp", Sharding::none},
    OtherShardingName{"zero0", Sharding::none},
    OtherShardingName{"no_shard", Sharding::none},
    OtherShardingName{"distributed-optimizer", Sharding::zero1},
    OtherShardingName{"optim", Sharding::zero1},
    OtherShardingName{"optim_grads", Sharding::zero2},
    OtherShardingName{"shard_grad_op", Sharding::zero2},
    OtherShardingName{"fsdp", Sharding::zero3},
    OtherShardingName{"fsdp1", Sharding::zero3},
    OtherShardingName{"fsdp2", Sharding::zero3},
    OtherShardingName{"full_shard", Sharding::zero3},
    OtherShardingName{"optim_grads_params", Sharding::zero3},
};

/// "ZeRO-3" as "zero3", "NO_SHARD" as "no_shard".
std::string plain_word(std::string_view word) {
  std::string plain = lower_case(word);
  constexpr std::string_view zero = "zero-";
  if (plain.starts_with(zero)) plain.erase(zero.size() - 1, 1);
  return plain;
}

}  // namespace

Sharding sharding_of_word(std::string_view word) {
  const std::string plain = plain_word(word);
  const auto known = std::ranges::find(other_sharding_names, plain, &OtherShardingName::name);
  if (known != other_sharding_names.end()) return known->sharding;
  for (const Sharding sharding :
       {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3})
    if (to_string(sharding) == plain) return sharding;
  return read_sharding(word);
}

}  // namespace stagecraft
