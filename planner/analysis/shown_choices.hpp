// The plans that `plan` shows beside its answer: the usual choices (usual_choices.hpp), and on
// large clusters, where these are not warm starts, also one device and PipeDream's choice.

#pragma once

#include <stop_token>
#include <string_view>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Prefix of `rejected` for a candidate that was left out because it would take too long.
inline constexpr std::string_view not_tried = "not tried: ";

/// Returns the choices found so far if a stop is requested.
std::vector<Candidate> shown_choices(const Problem& problem, const std::stop_token& stop);

}  // namespace stagecraft
