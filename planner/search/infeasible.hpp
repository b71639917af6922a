// The reason why no plan fits, with remedies that were tried.

#pragma once

#include <optional>
#include <stop_token>

#include "planner/space/space.hpp"

namespace stagecraft {

/// The reason why no plan fits, and remedies that were tried; only those found so far if a stop is
/// requested. `closest` is the plan of minimum memory if the caller has it
/// (planner/layouts/tightest_plan.hpp).
Infeasible explain_infeasible(const Problem& problem, const Space& space,
                              const std::stop_token& stop, std::optional<Candidate> closest = {});

}  // namespace stagecraft
