// The plan that needs least memory: whether anything fits at all, and by how much it does not. The
// search falls back on it where nothing else fits, and so do the words on what would.

#pragma once

#include <optional>
#include <stop_token>

#include "planner/space/effort.hpp"
#include "planner/space/space.hpp"

namespace stagecraft {

/// For what is looked for closely.
inline constexpr std::int64_t tight_effort = 100'000'000;

/// Of all plans, the one that exceeds its devices' memory by the least (`shortfall`), it may be
/// below zero. Nothing if there is none, or a stop was requested before one was found.
std::optional<Candidate> tightest_plan(const Space& space, const std::stop_token& stop);

/// The first that fits on the way to it.
std::optional<Candidate> tight_plan_that_fits(const Space& space, Effort effort);

}  // namespace stagecraft
