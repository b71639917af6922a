// Restricts a problem to the plans of one framework.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Which properties of a problem were set by the user, and which are defaults: a framework without
/// the former is refused, while defaults that it lacks are dropped.
struct SaidOfPlans {
  bool schedule = false, sharding = false, kernels = false, overlap = false,
       sequence_parallel = false, context_parallel = false, tensor_parallel = false,
       expert_parallel = false, expert_tensor_parallel = false;
};

/// The default sharding: optimizer states, if the framework supports that, since it takes no longer
/// and frees memory.
Sharding usual_sharding(const Target& target);

/// The problem restricted to plans that the framework runs. Throws Error (usage) for a property
/// that was set and that the framework lacks, and for a model that it does not train or serve.
Problem for_target(Problem problem, const Target& target, const SaidOfPlans& said);

}  // namespace stagecraft
