// What simulating a schedule in one shape gave: as JSON, and side by side in a sweep's table.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "profiles/error.hpp"
#include "simulator/analyses/jitter.hpp"
#include "simulator/analyses/lower_bounds.hpp"
#include "simulator/values/timeline.hpp"
#include "tools/options/failure_options.hpp"
#include "tools/options/scenario.hpp"
#include "tools/options/serving_options.hpp"
#include "tools/reports/explanation.hpp"

namespace stagecraft {

/// What a row of a table says of a run.
struct Figures {
  bool never_ends = false;
  Duration step{0};
  double bubble = 0;
  int most_in_flight = 0;
  std::optional<Bytes> highest_memory;  ///< nothing if there is no memory in the run
};
Figures figures_of(const EventRun& run);

struct Outcome {
  ScheduleSetting setting;
  std::string link_policy;                 ///< empty: asynchronous
  EventRun run;                            ///< of one iteration
  std::optional<Duration> steady_step;     ///< of one further iteration
  std::optional<CycleMean> cycle_mean;     ///< of further iterations in the long run
  std::optional<Summary> jittered;         ///< steps of many samples
  std::optional<LongRun> long_run;         ///< with failures
  std::optional<Serving> served;           ///< of inference
  std::optional<Explanation> explanation;  ///< takes as long as simulating: only where it is shown
  std::optional<Error> refusal;            ///< the schedule does not take the shape: nothing else
};

/// "each further iteration takes 20ms"; empty without.
std::string steady_sentence(const std::optional<Duration>& steady_step);
/// steady_step_ns, and cycle_mean_ns (a fraction where the cycle takes several iterations); nothing
/// without.
void add_steady(nlohmann::ordered_json& result, const std::optional<Duration>& steady_step,
                const std::optional<CycleMean>& cycle_mean);

/// jitter: {mean_ns, p50_ns, p95_ns, p99_ns}; nothing without.
void add_jitter(nlohmann::ordered_json& result, const std::optional<Summary>& steps);

/// waiting_for_memory_ns[] and stranded[], where anything waits or is.
void add_conditions(nlohmann::ordered_json& result, const EventRun& run);

/// The setting, and the fields of `simulate` or `refused`.
nlohmann::ordered_json outcome_json(const Outcome& outcome);

/// What a sweep keeps of each of its points: their timelines together might fill the memory.
struct SweepRow {
  ScheduleSetting setting;
  Figures figures;
  std::optional<Duration> steady_step;
  std::optional<Summary> jittered;
  std::optional<LongRun> long_run;
  std::optional<Serving> served;
  std::optional<Error> refusal;  ///< nothing else but the setting, then
};
SweepRow sweep_row(const Outcome& outcome);

/// A line per row. Schedules, stages and virtual stages have columns where they differ.
std::string sweep_table(const std::vector<SweepRow>& rows, bool unicode);

}  // namespace stagecraft
