// The search for plans of schedules that neither the fast clock nor the relaxations support:
// bidirectional pipelines (Chimera, DualPipe), overlapped pairs of passes, split samples and
// sequences, activations lent to other devices (BPipe), and orders generated for given durations.
//
// Every candidate is simulated: balanced stages on every number of devices and pipeline replicas,
// the most promising first, with or without recomputation; then local search moves cuts of the
// best. The only lower bound is the work, and only if each pass covers a whole microbatch and hides
// no messages.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Whether some of the problem's schedules need this search.
bool has_simulated_schedules(const Problem& problem);

/// Searches these schedules by simulation, and all others, if any, by the exact search.
SearchResult search_with_simulated(const Problem& problem, const SearchControl& control);

}  // namespace stagecraft
