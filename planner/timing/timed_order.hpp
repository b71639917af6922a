// A schedule's instructions in an order in which they can be timed one by one, and the memory peaks
// of its devices.

#pragma once

#include <optional>
#include <span>
#include <vector>

#include "simulator/lowering/lower.hpp"
#include "simulator/values/schedule.hpp"

namespace stagecraft {

/// A memory peak of a device: the microbatches in flight per stage of the device, and the stage
/// whose B (or I) runs.
struct FullMoment {
  std::vector<int> in_flight;  ///< per stage: microbatches between F and B or I, this one included
  std::vector<int> waiting;    ///< per stage: microbatches between I and W
  int turn = 0;                ///< the stage whose B or I runs: its number among the device's
                               ///< stages, in model order
  bool splits = false;         ///< it is an I: activations that its W needs stay
};

/// A schedule's timed order, and its devices' memory peaks.
struct TimedOrder {
  bool places_recompute = false;  ///< the schedule has recompute instructions of its own
  std::vector<Instruction> order;
  std::vector<std::vector<FullMoment>>
      moments;  ///< per pipeline device; only peaks that no other one dominates
};

/// The timed order; nothing if the schedule's devices deadlock. `strides` is the number of
/// round-robin replicas of each pipeline device; the peaks are those of the first replica.
std::optional<TimedOrder> time_order(const Schedule& schedule, const std::vector<int>& strides);

/// Bytes that the device's stage at this place holds at the peak beside parameters, gradients and
/// optimizer states, if the stage whose turn it is takes time.
Bytes held_at(const FullMoment& moment, std::size_t place, const ChunkMemory& stage,
              Recompute recompute);
/// Least bytes that a device needs at this peak; `computes`: the stage whose turn it is takes time.
Bytes bytes_at(const FullMoment& moment, std::span<const ChunkMemory> stages,
               std::span<const Recompute> recompute, bool computes);

}  // namespace stagecraft
