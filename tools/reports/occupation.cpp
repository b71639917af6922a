#include "tools/reports/occupation.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

namespace stagecraft {

namespace {

/// A thread that has its core to itself leaves it a few times a second, to the kernel's own work;
/// one that shares it with another, some hundred times.
constexpr double most_descheduled = 20;

std::int64_t involuntary_switches() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? std::int64_t{usage.ru_nivcsw} : 0;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

double per_second(const Occupation& occupation) {
  return static_cast<double>(occupation.descheduled) / std::max(occupation.seconds, 0.01);
}

}  // namespace

OccupationWatch::OccupationWatch()
    : start_(std::chrono::steady_clock::now()), descheduled_(involuntary_switches()) {
  double average = 0;
  if (getloadavg(&average, 1) == 1) load_ = average;
}

Occupation OccupationWatch::until_now(int ranks) const {
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start_;
  return {.descheduled = involuntary_switches() - descheduled_,
          .load = load_,
          .cores = usable_cores(),
          .ranks = std::max(ranks, 1),
          .seconds = time.count()};
}

bool is_busy(const Occupation& occupation) {
  if (occupation.ranks > occupation.cores) return true;
  if (occupation.load >= occupation.cores) return true;
  return per_second(occupation) / occupation.ranks > most_descheduled;
}

std::string in_words(const Occupation& occupation) {
  const auto counted = [](std::int64_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  return fmt::format("ranks were descheduled {} ({:.0f} a second), {} on {}, load {:.1f} before",
                     counted(occupation.descheduled, "time"), per_second(occupation),
                     counted(occupation.ranks, "rank"), counted(occupation.cores, "core"),
                     occupation.load);
}

nlohmann::ordered_json occupation_json(const Occupation& occupation) {
  return {{"descheduled", occupation.descheduled},
          {"load", occupation.load},
          {"cores", occupation.cores},
          {"ranks", occupation.ranks},
          {"busy", is_busy(occupation)}};
}

void add_occupation(std::map<std::string, std::string>& about, const Occupation& occupation) {
  if (is_busy(occupation)) about["busy"] = in_words(occupation);
}

}  // namespace stagecraft
