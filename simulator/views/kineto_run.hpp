// Runs of programs that `python -m stagecraft.torch export` writes, as PyTorch's profiler recorded
// them (train.py --kineto): ranges named by stage, pass, message and step.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "simulator/views/trace.hpp"

namespace stagecraft {

/// One process's trace.
struct KinetoRunFile {
  std::string path;
  std::string content;
};

/// Whether a trace of PyTorch's profiler has ranges of such a program. Cheap, and never throws.
bool is_kineto_run(std::string_view content);

/// The measured timeline of all processes, whose ranks are its devices. Its iterations are the
/// recorded steps; it counts from the start of the first one, in the time of rank 0. A pass lasts
/// as long as its range, or, where it ran on a GPU, from its first kernel to its last one. A
/// message lasts from its send until the pass that needs it begins, where that one waited for it;
/// otherwise as long as those between the same stages do (the median), and at most until that pass.
///
/// Throws Error (input) for traces that are not one of each process of one run, or are cut short.
Trace read_kineto_run(const std::vector<KinetoRunFile>& files);

}  // namespace stagecraft
