// What people would have chosen.

#pragma once

#include <optional>
#include <stop_token>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The usual choices a person would make — even split of the layers over all devices, pure data
/// parallelism, one device, what PipeDream's optimizer says if it is quick — scored by the same
/// evaluator.
std::vector<Candidate> usual_choices(const Problem& problem);

/// Once a stop is requested, the usual choices found by then, and at least one that fits if there
/// is any. Of those to start from (`worth`) some may be missing that do not fit or take longer.
std::vector<Candidate> usual_choices(const Problem& problem, const std::stop_token& stop,
                                     std::optional<Duration> worth = {});

}  // namespace stagecraft
