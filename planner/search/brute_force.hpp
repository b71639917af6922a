// Brute force: simulates every plan of the space.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Throws Error (usage) if there are too many plans.
SearchResult search_brute_force(const Problem& problem, const SearchControl& control);
/// Number of plans that brute force would simulate. Counting stops at about a million: then the
/// result is only known to be at least that.
double count_plans(const Problem& problem);
SearchResult brute_force_front(const Problem& problem, const SearchControl& control, int most,
                               double spacing);

}  // namespace stagecraft
