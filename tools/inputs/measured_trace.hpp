// A run's timeline, out of whatever recorded it.

#pragma once

#include <string>

#include "simulator/views/trace.hpp"
#include "tools/console.hpp"

namespace stagecraft {

struct MeasuredTrace {
  Trace trace;
  std::string hash;  ///< of the file, or of all files
};

/// Whether the path is a folder, or a file of a run that PyTorch's profiler recorded.
bool is_recorded_by_torch(const std::string& path);

/// Of a file stagecraft-trace/1; or of traces of PyTorch's profiler, as `train.py --kineto DIR`
/// writes them: the folder, or the file of a run of one process. Tells the console of each input.
/// Throws Error (input) for what is neither.
MeasuredTrace read_measured_trace(Console& console, const std::string& path);

}  // namespace stagecraft
