// Data-parallel replicas that do the same at the same time, folded into one.
//
// If every replica of every stage works alike, talks only to the replicas of its own number, and
// costs the same, then their timelines are equal: they meet only in collectives, which start when
// the last member is ready, and all are ready at once. So one of them tells it all.

#pragma once

#include <optional>

#include "simulator/simulate.hpp"

namespace stagecraft {

struct Folded {
  Program program;  ///< the devices of replica 0, renumbered in their order; without buffers
  Costs costs;
  std::vector<int> device;  ///< of the folded program, for each device of the whole one
};

/// Nothing unless all replicas are alike, instruction by instruction. The timeline of each device
/// of the whole program is that of its device in the folded one.
std::optional<Folded> fold(const Program& program, const Costs& costs);

}  // namespace stagecraft
