// Local search outside the searched family of plans: stages on devices of any order, or with
// tensor-parallel degrees of their own.

#pragma once

#include <functional>

#include "planner/search/evaluator.hpp"

namespace stagecraft {

/// The plan that follows from this one by moving a cut, handing a replica's devices to a
/// neighbouring stage, exchanging those of two neighbours, or changing whether a stage recomputes,
/// one at a time as long as that makes it faster and the effort lasts; each simulated. Layers stay
/// in the plan's order; the problem's are in the model's own. Only plans that `is_wanted` count.
/// Needs a candidate that fits, with one stage per pipeline device; others come back as they are.
Candidate best_nearby(const Problem& problem, const Candidate& candidate,
                      const std::function<bool(const Plan&)>& is_wanted, Effort& effort);

}  // namespace stagecraft
