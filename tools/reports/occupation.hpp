// How busy the machine was while something was measured on it: whether what was measured says
// anything about a prediction.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace stagecraft {

/// Of this process over some time, all its threads together.
struct Occupation {
  std::int64_t descheduled = 0;  ///< times that a thread had to leave its core to another
  double load = 0;               ///< of the machine over the last minute (getloadavg), at the start
  int cores = 1;                 ///< that this process may use
  int ranks = 1;                 ///< that worked in it
  double seconds = 0;
};

/// Counts from its construction on (getrusage(2), ru_nivcsw).
class OccupationWatch {
 public:
  OccupationWatch();
  Occupation until_now(int ranks) const;

 private:
  std::chrono::steady_clock::time_point start_;
  std::int64_t descheduled_ = 0;
  double load_ = 0;
};

/// Whether ranks waited for cores so often that times tell more of the machine than of the work:
/// they were descheduled more than twenty times a second each, there are more of them than cores,
/// or as many others wanted the cores before they began.
bool is_busy(const Occupation& occupation);
/// "ranks were descheduled 312 times (78 a second), 4 ranks on 2 cores, load 5.2 before".
std::string in_words(const Occupation& occupation);
/// descheduled, load, cores, ranks, busy.
nlohmann::ordered_json occupation_json(const Occupation& occupation);
/// For a trace's file: "busy": the words, only where it was.
void add_occupation(std::map<std::string, std::string>& about, const Occupation& occupation);

}  // namespace stagecraft
