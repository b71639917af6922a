// Folding: identical data-parallel replicas are simulated as one.
//
// If all replicas of every stage have the same work and costs and exchange messages only with
// replicas of their own number, their timelines are equal: they only interact in collectives, which
// start when the last member is ready, and all are ready at the same time. So simulating one of
// them suffices.

#pragma once

#include <optional>

#include "simulator/simulate.hpp"

namespace stagecraft {

struct Folded {
  Program program;  ///< the devices of replica 0, renumbered in their order; without buffers
  Costs costs;
  std::vector<int> device;  ///< for each device of the whole program, its device in the folded one
};

/// The folded program; nothing unless all replicas are equal, instruction by instruction. The
/// timeline of each device of the whole program is that of its device in the folded one.
std::optional<Folded> fold(const Program& program, const Costs& costs);

}  // namespace stagecraft
