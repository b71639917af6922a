// Small problems that allow empty stages.

#pragma once

#include <algorithm>

#include "tests/planner/mixed_cases.hpp"

namespace stagecraft::tests {

inline bool has_empty_stage(const Plan& plan) {
  return std::ranges::any_of(plan.stages,
                             [](const Stage& stage) { return stage.layers.size() == 0; });
}

/// A problem that brute force can still go through, of few layers.
inline Problem problem_with_empty(std::uint32_t seed) {
  Problem problem = seed % 2 == 0 ? random_problem(seed, {4, 4}) : random_mixed(seed, {4, 4});
  problem.min_layers_per_stage = 0;
  problem.tensor_parallel = {1};
  return problem;
}

}  // namespace stagecraft::tests
