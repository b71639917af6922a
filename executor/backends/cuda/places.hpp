// Which GPU a rank has, and which part of it.

#pragma once

#include <set>

#include "executor/backends/cuda.hpp"

namespace stagecraft::cuda {

struct Place {
  int device = 0;
  int part = 0;   ///< of its multiprocessors
  int parts = 1;  ///< 1: the whole GPU
};

/// Among so many GPUs. Throws Error (usage) if an option names a GPU that is not there, or GPUs are
/// to be divided among ranks that do not come to equally many on each.
Place place_of(int rank, const CudaOptions& options, int devices);

/// Of the options' ranks, all in this process.
std::set<int> devices_of_ranks(const CudaOptions& options, int devices);

}  // namespace stagecraft::cuda
