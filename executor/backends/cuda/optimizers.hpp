// Numbers that an optimizer's kernels are given, as the CPU's are.

#pragma once

#include "executor/backend.hpp"
#include "executor/backends/cuda/elements.hpp"

namespace stagecraft::cuda {

/// Step number `step`, from 1, without its tensors.
AdamWStep adamw_step(const AdamW& options, int step);

}  // namespace stagecraft::cuda
