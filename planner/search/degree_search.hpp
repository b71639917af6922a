// The exact search over several degrees of context and expert parallelism.
//
// All degrees are searched at once, since a plan of one degree rules others out. With a limited
// effort, or if a stop is requested before the search begins, the degrees that were asked for (else
// degree 1) are searched first, alone, so that the answer is never worse than that of a question
// without other degrees. Then all others are searched at once with the same effort again, with the
// first answer as incumbent.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Needs a problem with several degrees.
SearchResult search_degrees(const Problem& problem, const SearchControl& control);

}  // namespace stagecraft
