// A compiled program as the page's clock reads it: what page/clock.js runs, and page/page.js draws.

#pragma once

#include <string>
#include <vector>

#include "planner/costs/predict.hpp"
#include "simulator/values/timeline.hpp"

namespace stagecraft {

/// Costs as one list, by which prices name their entries: of each chunk forward, backward, input
/// gradient, weight gradient, recomputation, update and fused pair (-1: one after the other); of
/// each channel latency and occupancy; of each group its time. In nanoseconds.
std::vector<std::int64_t> listed_costs(const Costs& costs);

/// Nodes, prices, works and what they take of memory. Without the costs.
std::string packed_program(const Compiled& compiled);

/// What a timeline's devices compute and reduce, when: works as in a program, with their times.
std::string packed_timeline(const Timeline& timeline);

}  // namespace stagecraft
