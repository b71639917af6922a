// Activation checkpoints of torchtitan: wrapped transformer blocks, each of which recomputes on its
// own.

#pragma once

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// Wraps every `every`-th block of each pipeline device, counted stage by stage; 1 wraps all.
/// Embedding, head and modules of multi-token prediction are never wrapped. In a model without
/// blocks, all layers count. The model must be in its own order, the stages in the plan's.
void wrap_blocks(Plan& plan, const Model& model, int every);

}  // namespace stagecraft
