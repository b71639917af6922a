// The exact search where layers choose for themselves what they do again.
//
// 1. Stages that recompute as a whole or not at all, as if layers had no choice.
// 2. Without limits of memory: recomputing never makes a plan faster, so that bound holds for all.
//    The best plans there, and the best of 1, are made to fit (planner/searches/layers_again.hpp).
// 3. Equal columns (planner/searches/column_search.hpp) raise their bounds by paths and by what
//    devices hold, where each layer has the choice that is best by the weights of both
//    (planner/bounds/stage_choices.hpp). What comes up is made to fit, too.

#pragma once

#include "planner/search.hpp"

namespace stagecraft {

/// The same question where memory is no limit, and nothing recomputes.
Problem without_memory_limits(const Problem& problem);

/// Of a problem whose layers may choose.
SearchResult search_layers(const Problem& problem, const SearchControl& control);

}  // namespace stagecraft
