// Local search outside the searched family of plans: stages on devices of any order, or with
// tensor-parallel degrees of their own.

#pragma once

#include <functional>

#include "planner/search/evaluator.hpp"

namespace stagecraft {

/// Local search from this plan. A move shifts a cut, hands a replica's devices to a neighbouring
/// stage, exchanges replicas of two neighbours, changes a stage's tensor-parallel degree, or
/// changes whether a stage recomputes. Every move is simulated; moves that make the plan faster are
/// taken, until there is none or the effort is spent. Layers stay in the plan's order. Only plans
/// for which `is_wanted` is true count. The candidate must fit and have one stage per pipeline
/// device; any other is returned unchanged.
Candidate best_nearby(const Problem& problem, const Candidate& candidate,
                      const std::function<bool(const Plan&)>& is_wanted, Effort& effort);

}  // namespace stagecraft
