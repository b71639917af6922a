// Changes of what layers do, whatever devices they are on, and of the samples of a step.

#pragma once

#include "planner/analysis/changes/wishes.hpp"
#include "planner/plan/plan.hpp"

namespace stagecraft::what_if {

/// Precision, kernels, sharding, sequence and expert parallelism, sums of gradients, tokens.
void set_training(const Wishes& wishes, const Profile& profile, Plan& plan);

/// Throws Error (usage) where messages are to run beside kernels that the plan does not have.
void require_overlap(const Wishes& wishes, const Plan& plan);

/// Changes the recomputation of all stages.
void set_recompute(const Wishes& wishes, const Model& model, Plan& plan);

/// Samples per step and per microbatch.
void set_batch(const Wishes& wishes, Plan& plan);

}  // namespace stagecraft::what_if
