// The costs of instructions by operation, for the engines that time a program.

#pragma once

#include "simulator/simulate.hpp"

namespace stagecraft {

/// Time of a compute operation of this chunk; zero for messages, reductions and gathers, whose
/// costs belong to channels and groups. (A fused pair has `ChunkCosts::fused`.)
Duration cost_of(const ChunkCosts& costs, Op op);

}  // namespace stagecraft
