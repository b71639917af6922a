// What `plan` compares its answer with: the usual choices (usual_choices.hpp), and on large
// clusters, where the search does not begin with them, one device and PipeDream's choice.

#pragma once

#include <stop_token>
#include <string_view>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// How a candidate's `rejected` begins that was left out for the time it takes, not refused.
inline constexpr std::string_view not_tried = "not tried: ";

/// Stopped, it is what was found so far.
std::vector<Candidate> shown_choices(const Problem& problem, const std::stop_token& stop);

}  // namespace stagecraft
