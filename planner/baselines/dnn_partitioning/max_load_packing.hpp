// Depth-first search for any split, contiguous or not, that loads all devices less than a limit: a
// proof that there is none, where it comes to an end.

#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "planner/baselines/dnn_partitioning/max_load.hpp"

namespace stagecraft {

struct MaxLoadPacking {
  /// The device of each node, accelerators first; of loads below the limit.
  std::optional<std::vector<int>> found;
  bool complete = false;  ///< with nothing found: there is nothing
  std::int64_t steps = 0;
};

/// Places the nodes that fill most of a device first. A step places one.
MaxLoadPacking pack_below(const MaxLoadProblem& problem, double limit, std::int64_t most_steps,
                          const std::stop_token& stop);

}  // namespace stagecraft
