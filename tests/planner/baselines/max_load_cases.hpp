// Small random problems of the largest load.

#pragma once

#include <vector>

#include "planner/baselines/dnn_partitioning/max_load.hpp"
#include "tests/planner/cases.hpp"

namespace stagecraft::tests {

inline MaxLoadNode random_node(Random& random, int number) {
  const bool is_free = random.chance(30);
  return {.accelerator = is_free ? 0.0 : random.between(1, 20),
          .processor = is_free ? 0.0 : random.between(5, 60),
          .size = is_free && random.chance(50) ? 0.0 : random.between(0, 9),
          .accelerated = !random.chance(5),
          .members = {number}};
}

/// A few nodes with edges forward, a tensor each, and some tensors between any nodes, as backward
/// nodes make them.
inline MaxLoadProblem random_split(Random& random, int most_nodes) {
  MaxLoadProblem problem;
  const int nodes = random.between(1, most_nodes);
  const int percent = random.between(10, 70);
  for (int node = 0; node < nodes; ++node) {
    problem.nodes.push_back(random_node(random, node));
    problem.tensors.push_back({static_cast<double>(random.between(0, 8)), {node}});
    for (int from = 0; from < node; ++from) {
      if (!random.chance(percent)) continue;
      problem.edges.push_back({from, node});
      problem.tensors[static_cast<std::size_t>(from)].nodes.push_back(node);
    }
    const int other = random.between(0, node);
    if (other != node && random.chance(20)) problem.tensors.push_back({2, {node, other}});
  }
  problem.accelerators = random.between(0, 3);
  problem.processors = random.between(problem.accelerators == 0 ? 1 : 0, 1);
  problem.memory = random.chance(50) ? 1000 : random.between(5, 20);
  return problem;
}

inline bool fits(const MaxLoadProblem& problem, const std::vector<int>& nodes, bool on_processor) {
  double size = 0;
  for (const int node : nodes) {
    const MaxLoadNode& it = problem.nodes[static_cast<std::size_t>(node)];
    if (!on_processor && !it.accelerated) return false;
    size += it.size;
  }
  return on_processor || size <= problem.memory;
}

}  // namespace stagecraft::tests
