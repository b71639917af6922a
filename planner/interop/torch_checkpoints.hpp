// Activation checkpoints as torchtitan makes them: a wrapper around transformer blocks, each of
// which then recomputes by itself.

#pragma once

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// Of the blocks that each pipeline device holds, stage by stage, every `every`-th is wrapped: all
/// of them for 1. Embedding, head and modules of multi-token prediction are not. Of a model without
/// blocks all layers count. The model is in its own order, the stages in the plan's.
void wrap_blocks(Plan& plan, const Model& model, int every);

}  // namespace stagecraft
