// Layers that recompute by themselves, just as many as it takes for a plan to fit.
//
// For given stages: on each device, the choice of least extra time among all choices for its layers
// whose memory suffices at every full moment of the schedule (timed_order.hpp). Layer by layer,
// those choices stay that no other one equals in time, bytes saved and workspace; so alike layers
// are counted, not told apart: of 10 blocks that each do nothing, their attention or all of it
// again, 66 choices stay of 59,049.
//
// What the estimate leaves out (messages on their way) the simulator says; then the device takes
// its next best choice, and after many of them has as much less room.

#pragma once

#include <optional>
#include <stop_token>

#include "planner/space/space.hpp"

namespace stagecraft {

/// The same plan with its layers' choices made anew, within `recompute_layers` of the problem and,
/// where that may be, whole stages. Nothing if no choice fits, or a stop is requested before one is
/// found. The candidate's name stays.
std::optional<Candidate> with_layers_again(const Space& space, const Candidate& candidate,
                                           const std::stop_token& stop = {});

}  // namespace stagecraft
