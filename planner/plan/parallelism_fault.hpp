// Checks of a plan's degrees of parallelism: what they must divide, and what they exclude.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/plan/plan_fault.hpp"

namespace stagecraft {

/// Whether replicas must process equal parts of every microbatch at the same time, since they
/// exchange tokens for experts or scatter each microbatch's gradients.
inline bool needs_equal_shares(const Parallelism& parallelism, Sharding sharding) {
  return parallelism.expert > 1 || shards_gradients(sharding);
}

/// The fewest replicas of a stage, with `peers` peers each, whose devices hold whole sets of
/// experts.
int replicas_of_experts(const Parallelism& parallelism, int peers);

/// The reason why token exchanges between experts cannot overlap with another microbatch's work
/// under this schedule, with `microbatches` in a step; empty if they can.
std::string against_exchanges_beside(std::string_view schedule, int microbatches);

/// The first fault in the degrees of a plan that is valid otherwise.
std::optional<PlanFault> find_parallelism_fault(const Plan& plan, const Model& model);

}  // namespace stagecraft
