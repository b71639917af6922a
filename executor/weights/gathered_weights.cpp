#include "executor/weights/gathered_weights.hpp"

#include <cstring>
#include <set>
#include <utility>

#include "executor/driver/ranks.hpp"
#include "executor/training/training.hpp"
#include "executor/values/packing.hpp"
#include "executor/weights/weight_shard.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

std::string_view text_of(const Tensor& tensor) {
  return {tensor.data<char>(), static_cast<std::size_t>(tensor.bytes())};
}

/// Name, shape and, of a part, where it lies in the whole.
std::string packed_spec(const ParameterSpec& spec) {
  Packer packer;
  packer.put_bytes(spec.name);
  packer.put_list(spec.shape);
  packer.put(spec.shard.has_value());
  if (!spec.shard) return packer.take();
  packer.put_list(spec.shard->whole);
  packer.put(spec.shard->columns);
  for (const auto& [first, end] : spec.shard->ranges) {
    packer.put(first);
    packer.put(end);
  }
  return packer.take();
}

ParameterSpec unpack_spec(std::string_view packed) {
  Unpacker unpacker(packed);
  ParameterSpec spec{.name = std::string(unpacker.get_bytes()),
                     .shape = unpacker.get_list<std::int64_t>(),
                     .initialization = {},
                     .shard = {}};
  if (!unpacker.get<bool>()) return spec;
  spec.shard = WeightShard{
      .whole = unpacker.get_list<std::int64_t>(), .columns = unpacker.get<bool>(), .ranges = {}};
  while (!unpacker.done()) {
    const auto first = unpacker.get<std::int64_t>();
    spec.shard->ranges.emplace_back(first, unpacker.get<std::int64_t>());
  }
  return spec;
}

/// A message's bytes as a tensor.
Tensor part_of_message(const ParameterSpec& spec, Precision precision, std::string_view bytes) {
  Tensor part = host_tensor(spec.shape, precision);
  std::memcpy(part.storage.get(), bytes.data(), bytes.size());
  return part;
}

/// What the whole has where this part of it lies.
Tensor part_of(const Tensor& whole, const ParameterSpec& spec) {
  if (!spec.shard) return whole;
  Tensor part = host_tensor(spec.shape, whole.precision);
  copy_part(spec, whole, part);
  return part;
}

/// A whole weight as it is; of parts new memory, which they are copied into.
void place(const HandedWeight& handed, Tensor& whole) {
  if (!handed.spec.shard) {
    whole = handed.weight;
    return;
  }
  if (whole.empty()) whole = host_tensor(whole_shape(handed.spec), handed.weight.precision);
  copy_into_whole(handed.spec, handed.weight, whole);
}

}  // namespace

std::vector<HandedWeight> hand_over(Backend& backend, std::span<const HeldWeight> weights) {
  std::vector<HandedWeight> all;
  for (const HeldWeight& held : weights) {
    all.push_back({held.chunk, *held.spec, downloaded(backend, held.weight)});
  }
  return all;
}

std::string packed_weights(std::span<const HandedWeight> weights) {
  Packer packer;
  for (const HandedWeight& handed : weights) {
    packer.put(handed.chunk);
    packer.put_bytes(packed_spec(handed.spec));
    packer.put(handed.weight.precision);
    packer.put_bytes(text_of(handed.weight));
  }
  return packer.take();
}

std::vector<HandedWeight> unpack_weights(std::string_view packed) {
  std::vector<HandedWeight> all;
  Unpacker unpacker(packed);
  while (!unpacker.done()) {
    HandedWeight& handed = all.emplace_back();
    handed.chunk = unpacker.get<int>();
    handed.spec = unpack_spec(unpacker.get_bytes());
    const auto precision = unpacker.get<Precision>();
    handed.weight = part_of_message(handed.spec, precision, unpacker.get_bytes());
  }
  return all;
}

std::map<std::string, Tensor> put_together(const Program& program, const RankMap& ranks,
                                           std::span<const std::vector<HandedWeight>> of_ranks) {
  std::map<std::string, Tensor> gathered;
  std::set<std::string> known;  // parts, by their packed specifications
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    for (const HandedWeight& handed : of_ranks[rank]) {
      Tensor& whole = gathered[handed.spec.name];
      if (known.insert(packed_spec(handed.spec)).second) {
        place(handed, whole);
        continue;
      }
      if (text_of(part_of(whole, handed.spec)) == text_of(handed.weight)) continue;
      throw Error(ErrorKind::execution,
                  concat("the copies of ", handed.spec.name, " differ after the last step on ",
                         name_of_rank(program, ranks, static_cast<int>(rank), handed.chunk)));
    }
  }
  return gathered;
}

}  // namespace stagecraft
