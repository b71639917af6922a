// The usual choices of practitioners, as warm starts and for comparison.

#pragma once

#include <optional>
#include <stop_token>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The usual choices: an even split of the layers over all devices, pure data parallelism, one
/// device, and the plan of PipeDream's optimizer if that is quick. The evaluator scores them like
/// any plan.
std::vector<Candidate> usual_choices(const Problem& problem);

/// If a stop is requested, returns the usual choices found so far, and at least one that fits if
/// there is any. With `worth`, choices may be missing that do not fit or take longer.
std::vector<Candidate> usual_choices(const Problem& problem, const std::stop_token& stop,
                                     std::optional<Duration> worth = {});

}  // namespace stagecraft
