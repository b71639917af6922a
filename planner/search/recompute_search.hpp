// Plans all of whose stages recompute alike, for frameworks with one recomputation setting for the
// whole model.
//
// Each choice of recomputation is one search, whose layer costs include that recomputation
// (`CostBookSetting::again`), so that every relaxation and heuristic accounts for it. The searches
// run in order of more recomputation, each with the incumbent of those before. More recomputation
// takes longer, so if plans fit without it, later searches are soon ruled out.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Searches a problem with several `recompute_everywhere`; `search` takes problems with one. The
/// bound is the lowest of all.
SearchResult search_each_recompute(SearchResult (*search)(const Problem&, const SearchControl&),
                                   const Problem& problem, const SearchControl& control);

/// The problem restricted to the choice of recomputation that needs least memory.
Problem with_most_recompute(const Problem& problem);

}  // namespace stagecraft
