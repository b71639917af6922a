// The outcome of simulating a schedule in one shape, as JSON and as a row of a sweep's table.

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

/// The figures of a run in a table's row.
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
  EventRun run;                            ///< the run of one iteration
  std::optional<Duration> steady_step;     ///< time of one further iteration
  std::optional<CycleMean> cycle_mean;     ///< the cycle that limits further iterations in the long
                                           ///< run
  std::optional<Summary> jittered;         ///< summary of many samples' steps
  std::optional<LongRun> long_run;         ///< figures with failures
  std::optional<Serving> served;           ///< figures of inference
  std::optional<Explanation> explanation;  ///< set only if it is shown, since it takes as long as
                                           ///< simulating
  std::optional<Error> refusal;            ///< set if the schedule does not accept the shape; then
                                           ///< all else is empty
};

/// "each further iteration takes 20ms"; empty without.
std::string steady_sentence(const std::optional<Duration>& steady_step);
/// steady_step_ns, and cycle_mean_ns (a fraction if the cycle spans several iterations); nothing
/// without.
void add_steady(nlohmann::ordered_json& result, const std::optional<Duration>& steady_step,
                const std::optional<CycleMean>& cycle_mean);

/// jitter: {mean_ns, p50_ns, p95_ns, p99_ns}; nothing without.
void add_jitter(nlohmann::ordered_json& result, const std::optional<Summary>& steps);

/// waiting_for_memory_ns[] and stranded[], if they are not empty.
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
