// Measurement of copies within one rank: between its process and its device, and within the device.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "executor/measurement/measure.hpp"

namespace stagecraft {

struct TimedCopy {
  Bytes bytes = 0;
  Duration time{0};  ///< median of several copies
};

/// No larger size is tried after a copy of this duration, since its time is dominated by bandwidth.
inline constexpr Duration long_copy = std::chrono::milliseconds(50);

/// A fit of copies by latency + bytes / bandwidth (Hockney, "The communication challenge for MPP",
/// 1994).
struct FittedWay {
  Duration latency{0};
  Bandwidth bandwidth;
  double worst_error = 0;  ///< largest relative error over the fitted copies
};

/// The fit of least squared relative errors, with a nonnegative latency. Needs copies of at least
/// two sizes. If the time per byte cannot be distinguished from zero, the bandwidth is the largest
/// possible.
FittedWay fit_way(std::span<const TimedCopy> copies);

struct MeasuredWay {
  std::string name;  ///< "process to device"
  std::vector<TimedCopy> copies;
  FittedWay fit;
};

/// Measures sizes from 4 KiB to `largest` (at least 16 KiB), each four times the one before, up to
/// the first that takes `long_copy`.
std::vector<MeasuredWay> measure_ways(const MeasuredDevice& device, Bytes largest = 64 << 20);

}  // namespace stagecraft
