// Searches for the same under other conditions, whose plans are then compared.

#pragma once

#include <span>
#include <vector>

#include "planner/analysis/answers.hpp"

namespace stagecraft {

/// What `search` says of each problem. The threads are shared out among them; of progress the first
/// one tells.
std::vector<SearchResult> search_side_by_side(Search search, std::span<const Problem> problems,
                                              const SearchControl& control);

}  // namespace stagecraft
