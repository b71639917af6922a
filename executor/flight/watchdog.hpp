// A watchdog: one thread per process that sends heartbeats to the other processes, and ends the run
// with one sentence if it no longer makes progress.

#pragma once

#include <memory>
#include <vector>

#include "executor/driver/oversight.hpp"
#include "executor/flight/record.hpp"
#include "planner/costs/predict.hpp"

namespace stagecraft {

/// A rank of this process.
struct WatchedRank {
  FlightRecord* flight = nullptr;
  Transport* transport = nullptr;
};

/// Maximum durations.
struct Limits {
  std::vector<Duration> work;  ///< per work of the program
  Duration wait{0};
  Duration phase{0};  ///< for activities outside of the program: starting, checkpoints, results
};

Limits limits_of(const Compiled& compiled, const Oversight& oversight);

/// Watches during its lifetime. A run has stalled if a rank of this process exceeds its limits, or
/// if another process in the folder of flight records is silent; the watchdog then aborts the
/// transports.
class Watchdog {
 public:
  Watchdog(std::vector<WatchedRank> ranks, Limits limits, const Oversight& oversight);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace stagecraft
