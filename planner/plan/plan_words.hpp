// A plan in one line, in the abbreviations of large-scale training.

#pragma once

#include <string>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// "TP4 PP8 VPP4 DP2 · MBS 1 × 64 · ZeRO-1 · recompute none · interleaved": degrees of tensor,
/// pipeline and data parallelism, and those of context, expert and virtual stages above 1 (TP4+SP:
/// with sequence parallelism; ETP: tensor parallelism inside experts, if it is given); samples per
/// microbatch and replica, and microbatches per replica; sharding over replicas; recomputation; the
/// schedule. Degrees that differ between stages are joined by dashes: "TP4-2-2". The model must be
/// in the plan's order. `unicode` false: with | and x.
std::string plan_words(const Plan& plan, const Model& model, bool unicode = true);

}  // namespace stagecraft
