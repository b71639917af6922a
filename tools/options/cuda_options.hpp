// The flags of `run` for GPUs: selection, partitions, and launching of work.

#pragma once

#include <string>

#include "executor/backends/cuda.hpp"
#include "tools/console.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Flags as they were given; empty: not given.
struct CudaFlags {
  std::string graphs, deterministic, gpus;
  bool partitions = false;
  bool nvtx = false;
};

/// --graphs --partitions --gpus --deterministic --gpu-ranges.
void declare_cuda(CLI::App& app, CudaFlags& flags);

/// The options for `ranks` threads of this process (1: one rank in each of several processes). The
/// result refers to `console`. Throws Error (usage) for malformed flags, or for flags with a
/// backend without GPUs.
CudaOptions cuda_options_of(Console& console, const CudaFlags& flags, bool on_gpus, int ranks);

}  // namespace stagecraft
