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

/// Whether a trace of PyTorch's profiler has the ranges of such a program. Cheap; never throws.
bool is_kineto_run(std::string_view content);

/// The measured timeline of all processes; its devices are their ranks, its iterations the recorded
/// steps, and its zero the start of the first step, in the clock of rank 0. A pass lasts as long as
/// its range or, on a GPU, from its first to its last kernel. A message lasts from its send until
/// the pass that needs it begins, if that pass waited for it; otherwise it takes the median of
/// messages between the same stages, and ends at the latest when that pass begins.
///
/// Throws Error (input) unless there is exactly one complete trace of each process of one run.
Trace read_kineto_run(const std::vector<KinetoRunFile>& files);

}  // namespace stagecraft
