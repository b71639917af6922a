// Every plan of the space, simulated.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Throws Error (usage) where there are too many plans.
SearchResult search_brute_force(const Problem& problem, const SearchControl& control);
/// How many plans brute force would look at; a million or more is as good as any number.
double count_plans(const Problem& problem);
SearchResult brute_force_front(const Problem& problem, const SearchControl& control, int most,
                               double spacing);

}  // namespace stagecraft
