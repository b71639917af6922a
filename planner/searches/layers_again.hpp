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
//
// For a search: stages are those that would be best without limits of memory, and the best of those
// that recompute as a whole or not at all. Recomputing never makes a plan faster, so the bound of
// the search without limits holds for all.

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

/// The same question where memory is no limit, and nothing recomputes.
Problem without_memory_limits(const Problem& problem);

/// The exact search of a problem whose layers may choose.
SearchResult search_layers(const Problem& problem, const SearchControl& control);

}  // namespace stagecraft
