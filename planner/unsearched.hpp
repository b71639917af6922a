// Plans of kinds that the exact search does not know, and what its bound then says.
//
// It searches stages of consecutive layers on consecutive devices, all of one tensor-parallel
// degree, on large clusters with equally many replicas each. Other planners choose others, and the
// best plan may get better where a stage gets a degree of its own: such plans are found step by
// step (planner/nearby.hpp), without proof. A bound by work holds for all of them.

#pragma once

#include "planner/leaderboard.hpp"
#include "planner/space.hpp"

namespace stagecraft {

/// What no plan of any kind is faster than that has one of the problem's microbatches, as this one;
/// 0 if it has another.
Duration least_of_its_kind(const Space& space, const Plan& plan);

/// Says that what was searched are plans with one degree, where there are several and a plan with
/// more than one might be faster than the best.
void set_scope(const Space& space, const Leaderboard& board, SearchResult& result);

/// Puts the best of such plans on the board if it is faster than what is there, found near the
/// starts and near the best plan, in about a second or a quarter of the search's effort. The
/// result's bound then is one for plans of any kind; else its scope says which plans it speaks of.
void add_unsearched(const Space& space, const SearchControl& control, std::vector<Candidate> starts,
                    Leaderboard& board, SearchResult& result);

}  // namespace stagecraft
