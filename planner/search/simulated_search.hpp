// Plans of schedules that no fast clock times and no bound looks into: several copies of the model
// (Chimera, DualPipe), pairs of passes, parts of samples and pieces of sequences, activations that
// are lent, orders made for given durations.
//
// Each plan is simulated: balanced stages on every number of devices and columns, those that
// promise most first, as they are or recomputing; then the best of them, cut by cut. What bounds
// them is the work alone, where a pass is about a whole microbatch and hides no messages.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Whether some of the problem's schedules are such.
bool has_simulated_schedules(const Problem& problem);

/// The exact search of the problem's other schedules, if any, and this one of these.
SearchResult search_with_simulated(const Problem& problem, const SearchControl& control);

}  // namespace stagecraft
