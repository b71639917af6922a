// The search for plans whose stages have tensor-parallel degrees of their own: chains of one stage
// per device under GPipe and 1F1B, on few devices of one kind.

#pragma once

#include "planner/problem/incumbents.hpp"
#include "planner/space/space.hpp"

namespace stagecraft {

/// Puts what is faster onto the board, and returns the bound of `PlanFamily::several_degrees`: at
/// least what the board's best plan then takes, or what is worth it, if it has seen them all. Where
/// such plans are of kinds that it does not know, or the effort does not last, it is a bound by
/// tables or by work alone.
Searched search_mixed_degrees(const Space& space, const SearchControl& control, Leaderboard& board);

/// Whether stages could have degrees of their own at all.
bool has_several_degrees(const Space& space);

/// Whether the plan is one of these, under a setting of the space: on consecutive devices from the
/// first.
bool is_mixed_chain(const Space& space, const Plan& plan);

}  // namespace stagecraft
