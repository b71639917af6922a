#include "simulator/lower.hpp"

#include <string>
#include <utility>

#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "simulator/lowering/passes.hpp"

namespace stagecraft {

namespace {

/// The value whose name this is. Throws Error (input) with a suggestion for any other word.
template <class Value, std::size_t count>
Value read_name(std::string_view what, std::string_view name, const Value (&values)[count]) {
  std::vector<std::string> known;
  for (const Value value : values) {
    if (to_string(value) == name) return value;
    known.emplace_back(to_string(value));
  }
  fail("unknown ", what, " \"", name, "\"; expected ", join_words(known));
}

}  // namespace

std::string_view to_string(ReplicaPolicy policy) {
  switch (policy) {
    case ReplicaPolicy::split: return "split";
    case ReplicaPolicy::round_robin: return "round_robin";
  }
  return "";
}

ReplicaPolicy read_replica_policy(std::string_view name) {
  return read_name("replica policy", name, {ReplicaPolicy::split, ReplicaPolicy::round_robin});
}

std::string_view to_string(Recompute recompute) {
  switch (recompute) {
    case Recompute::none: return "none";
    case Recompute::full: return "full";
  }
  return "";
}

Recompute read_recompute(std::string_view name) {
  return read_name("recomputation", name, {Recompute::none, Recompute::full});
}

std::string_view to_string(WeightPolicy policy) {
  switch (policy) {
    case WeightPolicy::flush: return "flush";
  }
  return "";
}

WeightPolicy read_weight_policy(std::string_view name) {
  return read_name("weight policy", name, {WeightPolicy::flush});
}

Program lower(const Schedule& schedule, const LowerOptions& options) {
  lowering::require_fitting(schedule, options);
  lowering::Draft draft = lowering::place_stages(schedule, options);
  lowering::add_recomputation(draft);
  lowering::add_transfers(draft);
  lowering::add_reductions(draft);
  lowering::add_updates(draft);
  lowering::name_versions(draft);
  lowering::order_communication(draft);
  lowering::add_buffers(draft);
  lowering::place_buffers(draft);
  lowering::write_waits(draft);
  return std::move(draft.program);
}

}  // namespace stagecraft
