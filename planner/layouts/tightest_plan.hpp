// The minimum-memory plan: it shows whether any plan fits, and how much memory is missing. The
// search falls back on it if no other plan fits, and explanations of infeasibility name it.

#pragma once

#include <optional>
#include <stop_token>

#include "planner/space/effort.hpp"
#include "planner/space/space.hpp"

namespace stagecraft {

/// Default effort of a thorough search for the minimum-memory plan.
inline constexpr std::int64_t tight_effort = 100'000'000;

/// The plan that exceeds its devices' memory by the least (`shortfall`, negative if it fits).
/// Nothing if there is no plan, or if a stop was requested before one was found.
std::optional<Candidate> tightest_plan(const Space& space, const std::stop_token& stop);

/// The first plan that fits on the way to the minimum-memory plan; nothing if none is found within
/// the effort.
std::optional<Candidate> tight_plan_that_fits(const Space& space, Effort effort);

}  // namespace stagecraft
