// Common part of DualPipe and DualPipeV: the order of a device that overlaps forwards of one
// direction with backwards of the other. Internal to simulator/schedules/.

#pragma once

#include <vector>

#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

/// One device's place among the `length` devices that a direction takes to reach the turn
/// (DualPipe: the middle, DualPipeV: the last device), 0 at the outer end.
struct OverlappedPlace {
  int length = 1;
  int place = 0;
  int microbatches = 1;  ///< microbatches of each direction, at least 2 · length
  int inward = 0;        ///< its stage of the direction that comes from outside
  int outward = 0;       ///< its stage of the direction that comes from the turn
};

struct OverlappedOrder {
  std::vector<Instruction> instructions;
  std::vector<int> fused;  ///< as in Schedule::fused
};

OverlappedOrder overlapped_order(const OverlappedPlace& place);

}  // namespace stagecraft
