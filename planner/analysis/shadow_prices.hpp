// Shadow prices: the gain from one unit more of a resource, found by searching again.

#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "planner/analysis/binding.hpp"
#include "planner/problem/problem.hpp"

namespace stagecraft {

/// A fraction as text: "12.3 %".
std::string percent_of(double part);
Duration scaled(Duration time, double factor);

/// The shadow prices of memory, bandwidth, devices and microbatches that are positive. The plan
/// must come from our own search. The searches are small, with limited effort; the plan itself
/// under the changed conditions is always a candidate. Large problems are only searched with the
/// plan's schedule, microbatch and tensor-parallel degree. Gains that are not proved are given as
/// "at least". `threads` is the maximum number of threads; 0: one for each core.
std::vector<Binding> shadow_prices(const Problem& problem, const Candidate& best,
                                   const std::stop_token& stop, int threads);

}  // namespace stagecraft
