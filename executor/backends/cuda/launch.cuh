// How a kernel is launched: for the .cu files only. Tests carry kernels out on the CPU with a
// function of their own in its place.

#pragma once

#include <cuda_runtime_api.h>

#include "executor/backends/cuda/check.hpp"

namespace stagecraft::cuda {

/// Behind what the stream was asked for before. Throws Error (execution) if CUDA refuses.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, cudaStream_t stream,
            const Arguments&... arguments) {
  kernel<<<grid, static_cast<unsigned>(threads), 0, stream>>>(arguments...);
  check(cudaGetLastError(), "launch a kernel");
}

}  // namespace stagecraft::cuda
