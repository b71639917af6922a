#include "planner/problem/problem.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "planner/costs/device_memory.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

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

Problem with_parallelism_of(Problem problem, const Plan& plan) {
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

void Scope::add(const Scope& other) {
  equal_replicas = equal_replicas || other.equal_replicas;
  one_degree = one_degree || other.one_degree;
  // Of fewer orders it speaks of less.
  if (orders == 0 || (other.orders != 0 && other.orders < orders)) orders = other.orders;
  no_empty = no_empty || other.no_empty;
  consecutive_devices = consecutive_devices || other.consecutive_devices;
  least_of_others = std::min(least_of_others, other.least_of_others);
}

constexpr std::string_view on_consecutive_devices = " on consecutive devices";

bool is_of_consecutive_devices(std::string_view scope) {
  return scope.find(on_consecutive_devices) != std::string_view::npos;
}

std::string to_string(const Scope& scope) {
  std::vector<std::string> all;
  if (scope.one_degree) all.emplace_back("the same tensor-parallel degree");
  if (scope.equal_replicas) all.emplace_back("equally many replicas in lockstep");
  if (scope.no_empty) all.emplace_back("layers");
  std::string along;
  if (scope.orders == 1) along = " along the model's own order of layers";
  if (scope.orders > 1) along = concat(" along ", scope.orders, " of the model's orders of layers");
  const std::string whose = fmt::format(" whose stages all have {}", fmt::join(all, " and "));
  const std::string_view on = scope.consecutive_devices ? on_consecutive_devices : "";
  return concat("plans", on, along, all.empty() ? "" : whose);
}

bool speaks_of_all_plans(const SearchResult& result) {
  const bool has_scope = !result.bounds_any_kind && !result.scope.is_all();
  return !has_scope || result.scope.least_of_others >= result.lower_bound;
}

}  // namespace stagecraft
