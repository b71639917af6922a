// What other planners would choose, as starts for the exact search: with them its answer is never
// worse than any of theirs.

#pragma once

#include <vector>

#include "planner/baselines/baselines.hpp"

namespace stagecraft {

/// Sizes the problem up, downsets up to a limit.
ProblemSize size_of(const Problem& problem);

/// Whether the strategy belongs to the portfolio: another planner's, and by its estimate done
/// within a fraction of a second.
bool is_quick(const Strategy& strategy, const ProblemSize& size);

/// The plans of all quick strategies that have one, in the order of the table, scored by our
/// evaluator and without those planners' own figures. Limits on stages, which other planners cannot
/// be told, are not kept; none where devices are excluded. Ends early if a stop is requested.
std::vector<Candidate> portfolio(const Problem& problem, const SearchControl& control);

}  // namespace stagecraft
