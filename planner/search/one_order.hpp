// The exact search along one order of layers and one order of devices; exact.cpp says how it goes,
// and asks for several.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/problem/incumbents.hpp"

namespace stagecraft {

/// Puts what is found on the board, among plans of other orders. Leaves the starts that this order
/// does not have.
Searched search_one_order(const Problem& problem, const SearchControl& control, std::int64_t effort,
                          std::vector<Candidate>& starts, Leaderboard& board);

}  // namespace stagecraft
