// Measuring the ways that bytes take within one process: between the process and a device, within
// a device, and between two ranks.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "executor/measure.hpp"

namespace stagecraft {

struct TimedCopy {
  Bytes bytes = 0;
  Duration time{0};  ///< the median of several
};

/// Copies take latency + bytes / bandwidth (Hockney, "The communication challenge for MPP", 1994).
struct FittedWay {
  Duration latency{0};
  Bandwidth bandwidth;
  double worst_error = 0;  ///< of the copies it was fitted to, relative
};

/// The fit with the least relative errors in squares; a latency is not negative. Of two copies of
/// different sizes at least. A bandwidth too large to be told from no time is the largest there is.
FittedWay fit_way(std::span<const TimedCopy> copies);

struct MeasuredWay {
  std::string name;  ///< "process to device"
  std::vector<TimedCopy> copies;
  FittedWay fit;
};

/// Of 4 KiB to `largest` bytes, each size four times the one before.
std::vector<MeasuredWay> measure_ways(const MeasuredDevice& device, Bytes largest = 64 << 20);

}  // namespace stagecraft
