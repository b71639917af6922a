// Why nothing fits, and what would.

#pragma once

#include <optional>
#include <stop_token>

#include "planner/space/space.hpp"

namespace stagecraft {

/// Why nothing fits, and what would; as much of it as is known when a stop is requested. `closest`
/// is the tightest plan, where that is known (planner/layouts/tightest_plan.hpp).
Infeasible explain_infeasible(const Problem& problem, const Space& space,
                              const std::stop_token& stop, std::optional<Candidate> closest = {});

}  // namespace stagecraft
