// Traces of PyTorch's profiler (Kineto): how long steps took, and the layers that ranges name.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// Something that a thread did; times are microseconds of a clock that all of the file share.
struct KinetoSpan {
  std::string name;
  std::string thread;
  double start = 0, length = 0;
  double end() const { return start + length; }
  std::int64_t number = -1;  ///< sequence number, or correlation
};

/// What of a file's events tells of times.
struct KinetoEvents {
  std::string device;  ///< as its maker calls it; empty if the file does not say
  int rank = -1;       ///< of the process among all that trained; -1: the file does not say
  int processes = 0;   ///< of torch.distributed; 0: the file does not say
  /// Nanoseconds of the first process's wall clock from which times count; programs of
  /// stagecraft.torch say how far their own clock is from that one.
  std::int64_t epoch = 0;
  std::string busy;  ///< words of such a program about others that wanted its cores; empty: none
  std::vector<double> steps;  ///< seconds of each ProfilerStep#N, in their order
  std::vector<KinetoSpan>
      ranges;  ///< of record_function, without those that PyTorch itself records
  std::vector<KinetoSpan> operations, launches, kernels;
};

/// Throws Error (input) for JSON that is none, for events without times, or for kernels that were
/// launched but not recorded.
KinetoEvents read_kineto_events(std::string_view content, const std::string& file);

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
  bool has_kernels = false;         ///< else layers have the host's times
  std::vector<double> steps;        ///< seconds of each ProfilerStep#N, in their order
  std::vector<KinetoLayer> layers;  ///< innermost record_function ranges, in order of appearance
};

/// Throws Error (input) as read_kineto_events does.
KinetoTrace read_kineto(std::string_view content, const std::string& file);

}  // namespace stagecraft
