// A run's timeline, from any of the supported recordings.

#pragma once

#include <string>

#include "simulator/views/trace.hpp"
#include "tools/console.hpp"

namespace stagecraft {

struct MeasuredTrace {
  Trace trace;
  std::string hash;  ///< hash of the file, or of all files
};

/// Whether the path is a folder, or a trace of a run by PyTorch's profiler.
bool is_recorded_by_torch(const std::string& path);

/// Reads a stagecraft-trace/1 file, or traces of PyTorch's profiler as `train.py --kineto DIR`
/// writes them: the folder, or the file of a single process. Records each input with the console.
/// Throws Error (input) for anything else.
MeasuredTrace read_measured_trace(Console& console, const std::string& path);

}  // namespace stagecraft
