#include "planner/problem/problem.hpp"

#include <algorithm>

#include "planner/costs/device_memory.hpp"

namespace stagecraft {

Problem with_known_costs(Problem problem) {
  if (problem.profile.entries.empty())
    problem.known_costs = std::make_shared<LayerCostMemo>(problem.profile, problem.cluster);
  return problem;
}

bool serves(const Problem& problem) {
  return !problem.schedules.empty() && problem.schedules.front().name == "inference";
}

std::vector<Parallelism> parallelism_choices(const Problem& problem) {
  std::vector<Parallelism> choices{problem.parallelism};
  choices.insert(choices.end(), problem.other_parallelism.begin(), problem.other_parallelism.end());
  return choices;
}

Problem with_recompute_everywhere(Problem problem, RecomputeEverywhere what) {
  problem.recompute_everywhere = {what};
  problem.recompute = {what == RecomputeEverywhere::stages ? Recompute::full : Recompute::none};
  problem.recompute_layers.clear();
  return problem;
}

std::vector<Sharding> sharding_choices(const Problem& problem) {
  std::vector<Sharding> choices{problem.optimizer.sharding};
  choices.insert(choices.end(), problem.other_sharding.begin(), problem.other_sharding.end());
  return choices;
}

Problem with_sharding(Problem problem, Sharding sharding) {
  problem.optimizer.sharding = sharding;
  problem.other_sharding.clear();
  return problem;
}

Problem with_choices_of(Problem problem, const Plan& plan) {
  problem = with_sharding(std::move(problem), plan.optimizer.sharding);
  const bool sequence = problem.parallelism.sequence;
  problem.parallelism = plan.parallelism;
  problem.parallelism.sequence = sequence;
  problem.other_parallelism.clear();
  return problem;
}

Cluster with_usable_memory(const Problem& problem) {
  Cluster cluster = problem.cluster;
  for (DeviceKind& kind : cluster.kinds) {
    if (kind.memory_unlimited) kind.reserve = 0;
    take_part_of_memory(kind, problem.memory_fraction);
    Bytes usable = usable_memory(kind);
    if (problem.memory_cap) {
      const Bytes most = *problem.memory_cap - kind.reserve;
      usable = kind.memory_unlimited ? most : std::min(usable, most);
      kind.memory_unlimited = false;
    }
    kind.memory = usable + kind.reserve;
  }
  return cluster;
}

bool speaks_of_all_plans(const SearchResult& result) {
  return result.families.has(PlanFamily::any_kind) ||
         result.families.least_left_out() >= result.lower_bound;
}

}  // namespace stagecraft
