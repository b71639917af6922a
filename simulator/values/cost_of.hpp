// The costs of instructions, looked up by op: for whoever times a program.

#pragma once

#include "simulator/simulate.hpp"

namespace stagecraft {

/// What this chunk's compute takes; zero for messages, reductions and gathers, whose costs belong
/// to channels and groups. (A fused pair's stands in `ChunkCosts::fused`.)
Duration cost_of(const ChunkCosts& costs, Op op);

}  // namespace stagecraft
