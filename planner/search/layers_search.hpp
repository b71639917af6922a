// The exact search where layers choose for themselves what they do again.
//
// 1. Stages that recompute as a whole or not at all, as if layers had no choice.
// 2. Without limits of memory: recomputing never makes a plan faster, so that bound holds for all.
//    The best plans there, and the best of 1, are made to fit
//    (planner/search/heuristics/layers_again.hpp).
// 3. Equal columns (planner/search/column_search.hpp) raise their bounds by paths and by what
//    devices hold, where each layer has the choice that is best by the weights of both
//    (planner/relaxations/stage_choices.hpp). What comes up is made to fit, too.
//
// Where there are few plans in all, each of them is simulated instead of 3.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The same question where memory is no limit, and nothing recomputes.
Problem without_memory_limits(const Problem& problem);

/// That take a second to simulate.
inline constexpr double few_plans = 20'000;

/// Of a problem whose layers may choose. With less than the usual effort, as many fewer plans are
/// few.
SearchResult search_layers(const Problem& problem, const SearchControl& control,
                           double few = few_plans);

}  // namespace stagecraft
