// Questions that need several searches: the cheapest plan, and the Pareto front of memory and
// throughput.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

using Search = SearchResult (*)(const Problem& problem, const SearchControl& control);

/// The best plans by the problem's objective. For cost, one search for each number of devices (and
/// tensor-parallel degree), since plans on equally many devices cost the same per hour; its cutoff
/// is the step at which a plan would be cheapest. Throws Error (usage) if the objective is not the
/// step and the search has its own cost model.
SearchResult search_for_objective(Search search, const Problem& problem,
                                  const SearchControl& control);

/// The Pareto front of peak memory (of the fullest device) and samples per second: the fastest
/// plan, then the fastest of those whose memory is smaller by at least the fraction `spacing`, and
/// so on until none fits. Fastest first; at most `most` plans, followed by the minimum-memory plan
/// if the front is incomplete. `proved_optimal` if every search was proved and the front is
/// complete: then no plan of the space is better in both than one of the front, and without spacing
/// there are no further plans of this kind.
SearchResult pareto_front(Search search, const Problem& problem, const SearchControl& control,
                          int most, double spacing);

}  // namespace stagecraft
