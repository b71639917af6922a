// Schedules at equal memory: which shapes a schedule can take within a given room for activations.

#pragma once

#include <vector>

#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

/// Microbatches whose activations a device holds at most, from F to the end of B or W: a stage of
/// several on its device, or a piece of a sequence, counts for its part.
double microbatches_held(const Schedule& schedule);

/// The given shape with settings of the schedule's knob for devices with room for
/// `microbatches_in_flight`: 1f1b's warm-up, the microbatches in flight of automatic schedules, the
/// group of interleaved ones. The shape itself where the schedule has no knob or the shape sets it.
/// Some may be refused, and some may hold more: generate and measure them.
std::vector<ScheduleShape> variants(const ScheduleKind& kind, const ScheduleShape& shape,
                                    int microbatches_in_flight);

}  // namespace stagecraft
