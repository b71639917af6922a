// The search for plans whose stages have tensor-parallel degrees of their own: chains of one stage
// per device under GPipe and 1F1B, on few devices of one kind.

#pragma once

#include "planner/problem/incumbents.hpp"
#include "planner/space/space.hpp"

namespace stagecraft {

/// Adds faster plans to the board, and returns the bound of `PlanFamily::several_degrees`. If the
/// enumeration was complete, the bound is at least the board's best step (or `control.worth`); if
/// such plans are of unsupported kinds or the effort ran out, it is a bound by tables or by work
/// alone.
Searched search_mixed_degrees(const Space& space, const SearchControl& control, Leaderboard& board);

/// Whether the space allows stages of different tensor-parallel degrees.
bool has_several_degrees(const Space& space);

/// Whether the plan is a chain of several degrees under a setting of the space, on consecutive
/// devices from the first one on.
bool is_mixed_chain(const Space& space, const Plan& plan);

}  // namespace stagecraft
