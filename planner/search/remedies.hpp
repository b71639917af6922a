// What would make a plan fit where none does.

#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Changes of the question with which a plan was found that fits, in words, as flags: smaller
/// microbatches, recomputation, more devices, and so on. `closest` needs the least additional
/// memory. Those that are known when a stop is requested.
std::vector<std::string> verified_remedies(const Problem& problem,
                                           const std::optional<Candidate>& closest,
                                           const std::stop_token& stop);

}  // namespace stagecraft
