// Traces of PyTorch's profiler (Kineto): how long steps took, and the layers that ranges name.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// A range's kernels, or, where nothing ran on a device, what the host computed: of one occurrence.
struct KinetoLayer {
  std::string name;
  int count = 0;        ///< occurrences that the times are medians of
  double forward = 0;   ///< seconds
  double backward = 0;  ///< of the gradients of what the range computed, found by their number
  double spread = 0;    ///< of both together: (p90 - p10) / median
};

struct KinetoTrace {
  std::string device;               ///< as its maker calls it; empty if it does not say
  std::vector<double> steps;        ///< seconds of each ProfilerStep#N, in their order
  std::vector<KinetoLayer> layers;  ///< innermost record_function ranges, in order of appearance
};

/// Throws Error (input) for JSON that is none, or for events without times.
KinetoTrace read_kineto(std::string_view content, const std::string& file);

}  // namespace stagecraft
