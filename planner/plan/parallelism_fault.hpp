// What a plan's degrees of parallelism must divide, and what they do not go together with.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/plan/plan_fault.hpp"

namespace stagecraft {

/// Whether replicas take equal parts of every microbatch, together: they exchange tokens for
/// experts, or scatter each microbatch's gradients.
inline bool needs_equal_shares(const Parallelism& parallelism, Sharding sharding) {
  return parallelism.expert > 1 || shards_gradients(sharding);
}

/// Of so many peers each, the fewest replicas of a stage whose devices are whole sets of experts.
int replicas_of_experts(const Parallelism& parallelism, int peers);

/// Why exchanges between experts cannot run beside another microbatch's work under this schedule,
/// with so many microbatches in a step; empty if they can.
std::string against_exchanges_beside(std::string_view schedule, int microbatches);

/// The stages' replicas and devices are those of a plan that is valid otherwise.
std::optional<PlanFault> find_parallelism_fault(const Plan& plan, const Model& model);

}  // namespace stagecraft
