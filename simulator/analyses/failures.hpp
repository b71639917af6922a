// Goodput of a long run with failures: work and checkpoints, and failures of devices that take the
// run back to the last checkpoint.
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
  Duration between_failures{0};  ///< mean time between failures of one device
  Duration checkpoint{0};        ///< time to write a checkpoint, without other work
  Duration interval{0};          ///< work between checkpoints
  Duration recovery{0};          ///< time from a failure until work continues: detection, restart,
                                 ///< loading
  bool operator==(const FailureModel&) const = default;
};

/// Goodput, the work per time in [0, 1] in the long run (Daly, "A higher order estimate of the
/// optimum checkpoint interval for restart dumps", 2006, eq. 13): with the run's mean time between
/// failures M, interval / (M e^(recovery / M) (e^((interval + checkpoint) / M) - 1)). Throws Error
/// (usage), like all functions below, unless interval and between_failures are positive and no
/// member is negative.
double goodput(const FailureModel& model);

/// The optimal interval to first order, sqrt(2 checkpoint M) (Young, 1974), and with the higher
/// terms that matter if failures are frequent (Daly, 2006, eq. 37).
Duration young_interval(const FailureModel& model);
Duration daly_interval(const FailureModel& model);

struct FailureOptions {
  Duration work{0};  ///< time of the work, without checkpoints and failures
  int samples = 1000;
  std::uint64_t seed = 0;
};

/// Goodput (work / time) of the sampled runs, and their mean number of failures.
struct GoodputSamples {
  double mean = 0;
  double p5 = 0;  ///< 5th percentile: 5 % of the runs did worse
  double p50 = 0;
  double p95 = 0;
  double failures = 0;
  bool operator==(const GoodputSamples&) const = default;
};

/// Simulates the model until the work is done; there is no checkpoint at the end. The k-th time
/// between failures of a sample does not depend on the model's other numbers (Philox-4x32 of seed,
/// sample and k), so compared models get the same random failures. Throws Error (input) for a run
/// of more than 292 years.
GoodputSamples simulate_failures(const FailureModel& model, const FailureOptions& options);

}  // namespace stagecraft
