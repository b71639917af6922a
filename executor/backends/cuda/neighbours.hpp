// Several GPUs in one process: who can look into whose memory, and copies between them.

#pragma once

#include <set>
#include <vector>

#include "executor/backends/cuda/commands.hpp"

namespace stagecraft::cuda {

/// GPUs into whose memory this one can look.
std::vector<int> neighbours_of(int device);
/// Of these GPUs, which are the process's, those into whose memory this one can look from now on;
/// itself, too.
std::set<int> open_memory_of(const std::set<int>& others, int device);

/// Whether work on a GPU that can look into these GPUs' memory can use this: theirs, or the
/// process's.
bool can_use(const std::set<int>& open, const void* data);

/// From a GPU to the same or another one; needs no access.
void copy_between(Commands& commands, const void* from, void* to, Bytes bytes);

}  // namespace stagecraft::cuda
