// A plan in a line, in the words that people who train large models use.

#pragma once

#include <string>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// "TP4 PP8 VPP4 DP2 · MBS 1 × 64 · ZeRO-1 · recompute none · interleaved": degrees of tensor,
/// pipeline and data parallelism, and those of context, expert and virtual stages above 1 (TP4+SP:
/// with sequence parallelism; ETP: tensor parallelism inside experts, where it is said); samples
/// per microbatch and replica, and how many microbatches each replica has; what is sharded over
/// replicas; what is recomputed; the schedule. Stages that differ have theirs with dashes:
/// "TP4-2-2". The model is in the plan's order. `unicode` false: with | and x.
std::string plan_words(const Plan& plan, const Model& model, bool unicode = true);

}  // namespace stagecraft
