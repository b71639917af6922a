// Remedies for a problem of which no plan fits.

#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Changes of the problem with which a plan that fits was found, written as flags: smaller
/// microbatches, recomputation, more devices, and so on. `closest` is the plan that needs the least
/// additional memory. Returns those found so far if a stop is requested.
std::vector<std::string> verified_remedies(const Problem& problem,
                                           const std::optional<Candidate>& closest,
                                           const std::stop_token& stop);

}  // namespace stagecraft
