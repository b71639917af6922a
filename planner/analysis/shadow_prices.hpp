// What one unit more of something would bring, by asking the same question again.

#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "planner/analysis/binding.hpp"
#include "planner/problem/problem.hpp"

namespace stagecraft {

/// In words, as bindings say it: "12.3 %".
std::string percent_of(double part);
Duration scaled(Duration time, double factor);

/// Memory, bandwidth, devices, microbatches: those that would bring anything. The plan is one of
/// our own search. Small searches, counted in steps; the plan itself under the changed conditions
/// is always looked at, so that none says less than would be had without searching. Large problems
/// are searched near the plan only: with its schedule, microbatch and tensor-parallel degree. What
/// is not proved is said to be so much "at least". On at most so many threads; 0: one for each
/// core.
std::vector<Binding> shadow_prices(const Problem& problem, const Candidate& best,
                                   const std::stop_token& stop, int threads);

}  // namespace stagecraft
