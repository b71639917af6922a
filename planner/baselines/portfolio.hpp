// The portfolio: plans of other planners as warm starts of the exact search, so that its answer is
// never worse than any of theirs.

#pragma once

#include <vector>

#include "planner/baselines/baselines.hpp"

namespace stagecraft {

/// The sizes of the problem; downsets are counted up to a limit.
ProblemSize size_of(const Problem& problem);

/// Whether the strategy belongs to the portfolio: another planner that, by its estimate, takes a
/// fraction of a second.
bool is_quick(const Strategy& strategy, const ProblemSize& size);

/// The plans of all quick strategies, in the order of the table, scored by our evaluator and
/// without those planners' own figures. They need not obey limits on stages, which other planners
/// do not support. Empty if devices are excluded. Ends early if a stop is requested.
std::vector<Candidate> portfolio(const Problem& problem, const SearchControl& control);

}  // namespace stagecraft
