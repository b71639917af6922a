// The flags of `run` about GPUs: which, in which parts, and how they are asked for work.

#pragma once

#include <string>

#include "executor/backends/cuda.hpp"
#include "tools/console.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Flags as they were given; empty: not at all.
struct CudaFlags {
  std::string graphs, deterministic, gpus;
  bool partitions = false;
  bool nvtx = false;
};

/// --graphs --partitions --gpus --deterministic --gpu-ranges.
void declare_cuda(CLI::App& app, CudaFlags& flags);

/// For so many ranks that are threads of this process (1: of several processes, one each); what
/// refers to `console`. Throws Error (usage) for flags that are malformed,
/// or given to a backend without GPUs.
CudaOptions cuda_options_of(Console& console, const CudaFlags& flags, bool on_gpus, int ranks);

}  // namespace stagecraft
