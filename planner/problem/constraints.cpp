#include "planner/problem/constraints.hpp"

#include <algorithm>

namespace stagecraft {

bool asks_for_fixed_stages(const Problem& problem) {
  return !problem.fixed.empty();
}

bool asks_for_least_layers(const Problem& problem) {
  return problem.min_layers_per_stage > 1;
}

bool asks_for_most_stages(const Problem& problem) {
  return problem.max_stages.has_value();
}

bool asks_for_straight(const Problem& problem) {
  return problem.straight;
}

bool asks_for_excluded(const Problem& problem) {
  return !problem.excluded.empty();
}

bool asks_for_recompute(const Problem& problem) {
  const bool trains =
      std::any_of(problem.schedules.begin(), problem.schedules.end(),
                  [](const ScheduleChoice& schedule) { return schedule.name != "inference"; });
  // A framework without a choice of recomputation makes no constraint.
  return trains && problem.target == nullptr && problem.recompute.size() == 1;
}

bool asks_for_parallelism(const Problem& problem) {
  const Parallelism& parallelism = problem.parallelism;
  return parallelism.context > 1 || parallelism.expert > 1 || parallelism.expert_tensor > 0;
}

bool asks_for_pins(const Problem& problem) {
  return problem.pinned.any();
}

bool asks_for_target(const Problem& problem) {
  return problem.target != nullptr;
}

bool asks_for_tensor_parallel(const Problem& problem) {
  const auto& degrees = problem.tensor_parallel;
  return std::find(degrees.begin(), degrees.end(), 1) == degrees.end();
}

}  // namespace stagecraft
