// The max-load problem of graphs with too many downsets to list, for accelerators alone.

#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "planner/baselines/dnn_partitioning/max_load.hpp"

namespace stagecraft {

struct CutSearch {
  std::vector<std::vector<int>> parts;  ///< nodes of each; none if nothing better was found
  double load = 0;                      ///< the largest of theirs; else `below`
  double lower_bound = 0;               ///< on all splits, up to that load
  std::int64_t compared = 0;
};

/// Whether there are only accelerators, and not too many nodes.
bool can_search_cuts(const MaxLoadProblem& problem);

/// Looks for a split that loads all devices less than `below`, among cuts that are cheap for the
/// work before them and those along the given orders of the nodes.
CutSearch search_cuts(const MaxLoadProblem& problem, const std::vector<std::vector<int>>& orders,
                      double below, const std::stop_token& stop);

}  // namespace stagecraft
