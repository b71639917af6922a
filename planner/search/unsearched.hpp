// Plans outside the families that the exact search enumerates, and their lower bounds.
//
// The exact search covers stages of consecutive layers on consecutive devices, all with one
// tensor-parallel degree, and on large clusters with equally many replicas. Other planners may
// propose other plans, and a plan may get faster if one stage has a degree of its own. Local search
// finds such plans (planner/search/heuristics/nearby.hpp) without a proof; only chains of several
// degrees on few devices are enumerated (planner/search/enumerate/mixed_search.hpp). A bound by
// work holds for all of them.

#pragma once

#include "planner/problem/incumbents.hpp"
#include "planner/space/space.hpp"

namespace stagecraft {

/// Number of replicas of each stage of the plan; 0 if the stages differ, or if replicas take
/// microbatches in turn.
int copies_of(const Plan& plan);

/// Lower bound for this plan's family: `least_of_mixed` for mixed-degree chains on consecutive
/// devices, else the work bound. 0 if neither the plan's microbatch nor that of its replicas is one
/// of the problem's.
Duration least_of_its_kind(const Space& space, const Plan& plan, Duration least_of_mixed);

/// Searches near the warm starts and near the best plan, and among chains of several degrees,
/// within a few seconds or half of the search's effort, and adds the best plan found to the board
/// if it beats the incumbent. Returns `known` with the bound of several degrees, if such plans may
/// be faster, and the bound of any kind, if the best plan belongs to no family that was searched.
Searched add_unsearched(const Space& space, const SearchControl& control,
                        std::vector<Candidate> starts, Leaderboard& board, Searched known);

}  // namespace stagecraft
