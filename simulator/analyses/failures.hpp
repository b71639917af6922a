// What failures leave of a long run: work, checkpoints, and now and then a device that fails and
// takes the others back to the last checkpoint.
//
//   work ▕▏ work ▕▏ wo✗ ···· work ▕▏ work …       ▕▏ checkpoint   ✗ failure   ···· detection,
//   restart
//                     lost
//
// Failures of a device are independent of its past (exponential times between them), so those of
// the whole run come `devices` times as often. They may also strike during checkpoints and
// recoveries.

#pragma once

#include <cstdint>

#include "profiles/units.hpp"

namespace stagecraft {

struct FailureModel {
  int devices = 1;
  Duration between_failures{0};  ///< of one device, on average
  Duration checkpoint{0};        ///< to write one; nothing else is done meanwhile
  Duration interval{0};          ///< work between checkpoints
  Duration recovery{0};          ///< from a failure until work goes on: detection, restart, loading
  bool operator==(const FailureModel&) const = default;
};

/// Work done per time, in [0, 1], in the long run (Daly, "A higher order estimate of the optimum
/// checkpoint interval for restart dumps", 2006, eq. 13): with M between failures of the run,
/// interval / (M e^(recovery / M) (e^((interval + checkpoint) / M) - 1)). Throws Error (usage), as
/// all below, unless interval and between_failures are positive and nothing is negative.
double goodput(const FailureModel& model);

/// The interval that wastes least to first order, sqrt(2 checkpoint M) (Young, 1974), and with the
/// higher terms that matter when failures are frequent (Daly, 2006, eq. 37).
Duration young_interval(const FailureModel& model);
Duration daly_interval(const FailureModel& model);

struct FailureOptions {
  Duration work{0};  ///< to be done, without checkpoints and failures
  int samples = 1000;
  std::uint64_t seed = 0;
};

/// Of `samples` runs: work / time taken, and failures met on average.
struct GoodputSamples {
  double mean = 0;
  double p5 = 0;  ///< only so many per cent of all runs did worse
  double p50 = 0;
  double p95 = 0;
  double failures = 0;
  bool operator==(const GoodputSamples&) const = default;
};

/// Runs the model until the work is done; there is no checkpoint after the last of it. The k-th
/// time between failures of a sample is the same whatever the model's other numbers (Philox-4x32 of
/// seed, sample and k), so that models which are compared meet the same luck. Throws Error (input)
/// for a run that takes more than 292 years.
GoodputSamples simulate_failures(const FailureModel& model, const FailureOptions& options);

}  // namespace stagecraft
