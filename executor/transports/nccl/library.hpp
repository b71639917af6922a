// libnccl and the CUDA runtime behind `Calls`.

#pragma once

#include <memory>

#include "executor/transports/nccl/calls.hpp"

namespace stagecraft::nccl {

/// Throws Error (execution) where there is no driver or no GPU.
void require_gpu();

/// For a rank: on the GPU that the CUDA backend uses for it (executor/backends/cuda.hpp).
std::unique_ptr<Calls> library_calls(int rank);

}  // namespace stagecraft::nccl
