// The exact search where there are several degrees of context and expert parallelism to try.
//
// All of them at once: what a plan of one takes rules others out. With a given effort, or where a
// stop is requested before it begins, first those asked for, or none, by themselves, as of a
// question that has no others: so the answer is never worse than that question's. Then all others
// at once, with as much effort again, of which only what is better than the plan there is matters.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Of a problem with other degrees.
SearchResult search_degrees(const Problem& problem, const SearchControl& control);

}  // namespace stagecraft
