// More stages per device than a search tries by itself: recipes interleave six or eight of a large
// model, and finer stages leave smaller bubbles and less memory to lack. Few questions are answered
// so, and to search all of them takes as long again; so the search looks for such plans briefly,
// and goes through them where it finds a better one.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The exact search, and where every usual number of interleaved stages was asked for, what finer
/// ones are better at. The answer is that of the question without them unless they are.
SearchResult search_with_finer_stages(const Problem& problem, const SearchControl& control);

}  // namespace stagecraft
