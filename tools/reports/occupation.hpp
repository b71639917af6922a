// How busy the machine was during a measurement, which decides whether the measurement can be
// compared with a prediction.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace stagecraft {

/// Figures of this process over a period, for all its threads together.
struct Occupation {
  std::int64_t descheduled = 0;  ///< number of times that a thread was descheduled
  double load = 0;               ///< load of the machine over the last minute (getloadavg), at the
                                 ///< start
  int cores = 1;                 ///< cores that this process may use
  int ranks = 1;                 ///< ranks in this process
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

/// Whether ranks waited for cores so often that times reflect the machine's load: each was
/// descheduled more than twenty times a second, there are more ranks than cores, or the load at the
/// start left too few cores.
bool is_busy(const Occupation& occupation);
/// "ranks were descheduled 312 times (78 a second), 4 ranks on 2 cores, load 5.2 before".
std::string in_words(const Occupation& occupation);
/// descheduled, load, cores, ranks, busy.
nlohmann::ordered_json occupation_json(const Occupation& occupation);
/// Adds "busy" with the words to a trace's metadata, if the machine was busy.
void add_occupation(std::map<std::string, std::string>& about, const Occupation& occupation);

}  // namespace stagecraft
