// Recomputation per layer: the fewest recomputed layers with which a plan fits.
//
// For given stages, each device takes the choice of least extra time for its layers that fits at
// every memory peak of the schedule (timed_order.hpp). A dynamic program over layers keeps only
// choices that no other one dominates in time, bytes saved and workspace. Layers of equal costs are
// therefore counted, not distinguished: for 10 blocks that recompute nothing, their attention, or
// everything, 66 of 59,049 choices remain.
//
// The estimate leaves out messages in flight. If the simulator finds that a device exceeds its
// memory, the device takes its next best choice; after many of these, its limit is lowered by the
// missing bytes.

#pragma once

#include <optional>
#include <stop_token>

#include "planner/space/space.hpp"

namespace stagecraft {

/// The plan with recomputation chosen anew, from the problem's `recompute_layers` and, if the
/// problem allows it, of whole stages. Nothing if no choice fits, or if a stop is requested before
/// one is found. The candidate keeps its name.
std::optional<Candidate> with_layers_again(const Space& space, const Candidate& candidate,
                                           const std::stop_token& stop = {});

}  // namespace stagecraft
