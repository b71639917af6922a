// A watchdog: one thread per process that shows the others a sign of life, and ends the run in one
// sentence when it no longer goes on.

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

/// How long things may take.
struct Limits {
  std::vector<Duration> work;  ///< parallel to the program's
  Duration wait{0};
  Duration phase{0};  ///< outside of the program: starting, checkpoints, results
};

Limits limits_of(const Compiled& compiled, const Oversight& oversight);

/// While it lives, it watches. A run stalls when a rank of this process is late, or when another's
/// process in the folder of flight records is silent; the watchdog then aborts the transports.
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
