// The question about the plans of one framework.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// What of a question somebody said, and what is only a default: a framework without the former is
/// refused, the latter it leaves out.
struct SaidOfPlans {
  bool schedule = false, sharding = false, kernels = false, overlap = false,
       sequence_parallel = false, context_parallel = false, tensor_parallel = false,
       expert_parallel = false, expert_tensor_parallel = false;
};

/// What is sharded over replicas unless somebody said so: optimizer states, where the framework has
/// that, which takes no longer and leaves memory.
Sharding usual_sharding(const Target& target);

/// The same question about plans that the framework runs. Throws Error (usage) for what was said
/// and the framework does not have, and for a model that it does not train or serve.
Problem for_target(Problem problem, const Target& target, const SaidOfPlans& said);

}  // namespace stagecraft
