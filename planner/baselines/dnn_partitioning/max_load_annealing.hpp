// A split made better without regard to contiguity, by simulated annealing (Kirkpatrick, Gelatt,
// Vecchi, Science 220, 1983): nodes, pairs of neighbours and exchanges of two nodes, tried at
// random.
//
// The largest load alone does not say which of many moves leads anywhere, so what is annealed is
// the sum over devices of (load / scale) to a high power. A move changes two devices only: a tensor
// costs others as much as before.

#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "planner/baselines/dnn_partitioning/max_load.hpp"

namespace stagecraft {

struct AnnealingSettings {
  std::int64_t steps = 0;
  std::uint32_t seed = 0;
  int doublings = 5;  ///< the power is 2 to this
  double scale = 1;   ///< about the load hoped for
};

/// The best placement met (a device for each node, accelerators first); the start if none is
/// better. What does not fit into memory is never passed through. The same settings give the same
/// placement.
std::vector<int> annealed(const MaxLoadProblem& problem, const std::vector<int>& start,
                          const AnnealingSettings& settings, const std::stop_token& stop);

}  // namespace stagecraft
