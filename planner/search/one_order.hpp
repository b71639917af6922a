// The exact search along one order of layers and one order of devices. exact.cpp describes the
// method, and calls it for each order.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/problem/incumbents.hpp"

namespace stagecraft {

/// Adds the plans found to the board. Removes the warm starts that lie in this order's space from
/// `starts`.
Searched search_one_order(const Problem& problem, const SearchControl& control, std::int64_t effort,
                          std::vector<Candidate>& starts, Leaderboard& board);

}  // namespace stagecraft
