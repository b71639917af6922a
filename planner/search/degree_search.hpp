// The exact search where there are several degrees of context and expert parallelism to try.
//
// First those asked for, or none, by themselves: with the effort, and in the order, of a question
// that has no others. So the answer is never worse than that question's, and a search that is
// stopped early has lost nothing by what it might have tried. Then all others at once, with as much
// effort again: only what is better than the plan there is by then matters to them, which rules
// most of them out by their bounds.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Of a problem with other degrees.
SearchResult search_degrees(const Problem& problem, const SearchControl& control);

}  // namespace stagecraft
