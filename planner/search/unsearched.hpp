// Plans of kinds that the exact search does not know, and what its bound then says.
//
// It searches stages of consecutive layers on consecutive devices, all of one tensor-parallel
// degree, on large clusters with equally many replicas each. Other planners choose others, and the
// best plan may get better where a stage gets a degree of its own: such plans are found step by
// step (planner/search/heuristics/nearby.hpp), without proof, but for chains on few devices, which
// are searched (planner/search/enumerate/mixed_search.hpp). A bound by work holds for all of them.

#pragma once

#include "planner/problem/incumbents.hpp"
#include "planner/space/space.hpp"

namespace stagecraft {

/// How many replicas each stage of the plan has; 0 where they are not equally many, or take turns.
int copies_of(const Plan& plan);

/// Lower bound for this plan's family: `least_of_mixed` for mixed-degree chains on consecutive
/// devices, else the work bound. 0 if neither the plan's microbatch nor that of its replicas is one
/// of the problem's.
Duration least_of_its_kind(const Space& space, const Plan& plan, Duration least_of_mixed);

/// Puts the best of such plans on the board if it is faster than what is there, found near the
/// starts and near the best plan, and among chains of several degrees, in a few seconds or half of
/// the search's effort. Adds to what is known: the bounds of several degrees, if they may be
/// faster, and of any kind, if the best plan is of none that was searched.
Searched add_unsearched(const Space& space, const SearchControl& control,
                        std::vector<Candidate> starts, Leaderboard& board, Searched known);

}  // namespace stagecraft
