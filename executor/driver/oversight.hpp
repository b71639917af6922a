// Failure handling: flight-recorder files, the watchdog's timeout, and checks for NaN.

#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "profiles/units.hpp"

namespace stagecraft {

struct Oversight {
  /// The folder of the ranks' flight records, the same for all processes of a run; created if
  /// missing. Empty: records are kept in memory only.
  std::filesystem::path flight_records;
  std::string plan_hash;  ///< "xxh3:…", written to the records
  /// An instruction has stalled if it takes longer than this and longer than 20 times its simulated
  /// duration; a wait, longer than 20 times the step's.
  Duration deadline = std::chrono::seconds(30);
  Duration predicted_step{0};  ///< 0: unknown
  /// Whether results are checked for NaN and infinity before they are used.
  bool check_finite = true;
  /// Called on its own thread, with the reason, if a rank does not stop when it is told to; it may
  /// end the process. Without this function the run waits for that rank.
  std::function<void(const std::string&)> on_stuck;
};

}  // namespace stagecraft
