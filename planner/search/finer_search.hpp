// More virtual stages per device than the default search tries. Recipes of large models interleave
// six or eight, and finer stages have smaller bubbles and less uneven memory. They seldom win, and
// searching all of them would double the time. So a short search looks for such plans, and a full
// one follows only if it finds a better plan.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The exact search, followed by a search over finer stages if the problem asks for all usual
/// numbers of virtual stages. Without a better plan of finer stages, the answer is that of the
/// exact search.
SearchResult search_with_finer_stages(const Problem& problem, const SearchControl& control);

}  // namespace stagecraft
