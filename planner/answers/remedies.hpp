// What would make a plan fit where none does.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search.hpp"

namespace stagecraft {

/// A plan that fits, if a short look finds one.
std::optional<Candidate> find_plan(const Problem& problem);

/// The question with the least memory per device: the smallest microbatch only.
Problem smallest(Problem problem);

/// Changes of the question with which a plan was found that fits, in words, as flags: smaller
/// microbatches, recomputation, more devices, and so on. `closest` needs the least additional
/// memory.
std::vector<std::string> verified_remedies(const Problem& problem,
                                           const std::optional<Candidate>& closest);

}  // namespace stagecraft
