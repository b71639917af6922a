// A schedule in an order in which its instructions can be timed one by one, and the moments at
// which its devices hold most.

#pragma once

#include <optional>
#include <span>
#include <vector>

#include "simulator/lowering/lower.hpp"
#include "simulator/values/schedule.hpp"

namespace stagecraft {

/// A moment at which a device holds much: what is in flight per stage of the device, and the stage
/// whose B (or I) runs.
struct FullMoment {
  std::vector<int> in_flight;  ///< from F to B or I, this one included
  std::vector<int> waiting;    ///< from I to W
  int turn = 0;                ///< which of the device's stages, in model order
  bool splits = false;         ///< it is an I: what its W needs stays
};

/// One schedule in an order in which its instructions can be timed, and when its devices are full.
struct TimedOrder {
  bool places_recompute = false;  ///< the schedule says itself when to recompute
  std::vector<Instruction> order;
  std::vector<std::vector<FullMoment>>
      moments;  ///< per pipeline device; only those no other one covers
};

/// Nothing if the schedule's devices wait for each other. Of replicas that take turns, `strides`
/// says for each pipeline device how many there are; moments are those of the first.
std::optional<TimedOrder> time_order(const Schedule& schedule, const std::vector<int>& strides);

/// What a device's stage, of this place among them, holds beside its parameters and what goes with
/// them, if the one in turn takes time.
Bytes held_at(const FullMoment& moment, std::size_t place, const ChunkMemory& stage,
              Recompute recompute);
/// Bytes a device needs at least, at this moment; `computes`: the stage in turn takes time.
Bytes bytes_at(const FullMoment& moment, std::span<const ChunkMemory> stages,
               std::span<const Recompute> recompute, bool computes);

}  // namespace stagecraft
