// Failure handling: flight-recorder files, the watchdog's timeout, and checks for NaN.

#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "profiles/units.hpp"

namespace stagecraft {

struct Oversight {
  /// The folder of the ranks' flight records, the same for all processes of a run; made if it is
  /// not there. Empty: records are kept in memory only.
  std::filesystem::path flight_records;
  std::string plan_hash;  ///< "xxh3:…": told by the records
  /// An instruction has stalled when it takes longer than this and than 20 times its simulated
  /// duration; a wait, 20 times the step's.
  Duration deadline = std::chrono::seconds(30);
  Duration predicted_step{0};  ///< 0: not known
  /// Whether results are searched for NaN and infinity before others use them.
  bool check_finite = true;
  /// Called with the reason, on a thread of its own, if ranks have been told to stop and one does
  /// not: it may end the process. Without it the run waits for that rank.
  std::function<void(const std::string&)> on_stuck;
};

}  // namespace stagecraft
