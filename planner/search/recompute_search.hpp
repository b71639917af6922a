// Questions about plans all of whose stages do the same again: for frameworks that know one answer
// for all stages.
//
// Each of these answers is a question of its own, whose layers take and keep what they do with that
// answer (`CostBookSetting::again`), so that every relaxation and every heuristic knows it. They
// are searched in order, each against the best plan of those before: what recomputes more takes
// longer, so where plans fit without, the later ones are soon ruled out.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The problem has several `recompute_everywhere`; the search knows questions with one. Its bound
/// is the least of all.
SearchResult search_each_recompute(SearchResult (*search)(const Problem&, const SearchControl&),
                                   const Problem& problem, const SearchControl& control);

/// The question with the one of these that needs least memory.
Problem with_most_recompute(const Problem& problem);

}  // namespace stagecraft
