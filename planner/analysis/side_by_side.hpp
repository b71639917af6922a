// Searches of several problems side by side, for a comparison of their plans.

#pragma once

#include <span>
#include <vector>

#include "planner/analysis/answers.hpp"

namespace stagecraft {

/// The result of `search` for each problem. The searches divide the threads; only the first one
/// reports progress.
std::vector<SearchResult> search_side_by_side(Search search, std::span<const Problem> problems,
                                              const SearchControl& control);

}  // namespace stagecraft
