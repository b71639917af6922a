#include "simulator/lowering/lower.hpp"

#include <utility>

#include "profiles/abandonment.hpp"
#include "profiles/text.hpp"
#include "simulator/lowering/passes.hpp"

namespace stagecraft {

namespace {

/// A share of what is dense and one of what experts have.
void divide(Bytes& all, Bytes& of_experts, int holders, int expert_holders) {
  const auto share = [](Bytes bytes, int parts) { return (bytes + parts - 1) / parts; };
  const Bytes dense = share(all - of_experts, holders);
  of_experts = share(of_experts, expert_holders);
  all = dense + of_experts;
}

}  // namespace

ChunkMemory shard_of(ChunkMemory memory, Sharding sharding, int holders, int expert_holders) {
  const auto divided = [&](Bytes& all, Bytes& of_experts) {
    divide(all, of_experts, holders, expert_holders);
  };
  if (sharding != Sharding::none) divided(memory.optimizer, memory.experts.optimizer);
  if (shards_gradients(sharding)) divided(memory.gradients, memory.experts.gradients);
  if (sharding == Sharding::zero3) divided(memory.parameters, memory.experts.parameters);
  return memory;
}

std::string_view to_string(ReplicaPolicy policy) {
  switch (policy) {
    case ReplicaPolicy::split: return "split";
    case ReplicaPolicy::round_robin: return "round_robin";
  }
  return "";
}

ReplicaPolicy read_replica_policy(std::string_view name) {
  return read_choice("replica policy", name, {ReplicaPolicy::split, ReplicaPolicy::round_robin});
}

std::string_view to_string(Recompute recompute) {
  switch (recompute) {
    case Recompute::none: return "none";
    case Recompute::full: return "full";
  }
  return "";
}

Recompute read_recompute(std::string_view name) {
  return read_choice("recomputation", name, {Recompute::none, Recompute::full});
}

Program lower(const Schedule& schedule, const LowerOptions& options) {
  lowering::require_fitting(schedule, options);
  lowering::Draft draft = lowering::place_stages(schedule, options);
  for (const auto add :
       {lowering::add_recomputation, lowering::add_transfers, lowering::add_evictions,
        lowering::add_reductions, lowering::add_norm, lowering::add_updates,
        lowering::name_versions, lowering::add_gathers, lowering::add_validation,
        lowering::order_communication, lowering::add_buffers}) {
    check_abandoned();
    add(draft);
  }
  check_abandoned();
  if (options.places_buffers) lowering::place_buffers(draft);
  lowering::write_waits(draft);
  return std::move(draft.program);
}

}  // namespace stagecraft
