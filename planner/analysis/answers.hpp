// Questions that take several searches: the cheapest plan, and the front of memory and throughput.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

using Search = SearchResult (*)(const Problem& problem, const SearchControl& control);

/// The best plans by the problem's objective, as the search finds them by time. For cost, one
/// search for each number of devices (and tensor-parallel degree), which cost the same whatever the
/// plan; none looks at what takes longer than would be cheapest. Throws Error (usage) if the
/// objective is not step and the search has a cost model of its own.
SearchResult search_for_objective(Search search, const Problem& problem,
                                  const SearchControl& control);

/// Plans of which none is better in both peak memory (of the fullest device) and samples per
/// second: the fastest, then the fastest of those that need less memory than it does, less by at
/// least this part of it, and so on until nothing fits. The fastest first; at most `most`, then, if
/// that was not all or there was no time for all, the one that needs least memory.
/// `proved_optimal` if every search was proved and the front is complete: then no plan of the space
/// is better in both than one of the front, and without spacing there are no others like these.
SearchResult pareto_front(Search search, const Problem& problem, const SearchControl& control,
                          int most, double spacing);

}  // namespace stagecraft
