// Measuring the ways that bytes take within one rank: between its process and its device, and
// within the device.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "executor/measurement/measure.hpp"

namespace stagecraft {

struct TimedCopy {
  Bytes bytes = 0;
  Duration time{0};  ///< the median of several
};

/// None larger is tried: its bytes are what takes the time.
inline constexpr Duration long_copy = std::chrono::milliseconds(50);

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

/// Of 4 KiB to `largest` bytes, 16 KiB at least, each size four times the one before, up to the
/// first that takes long.
std::vector<MeasuredWay> measure_ways(const MeasuredDevice& device, Bytes largest = 64 << 20);

}  // namespace stagecraft
