// The flags for the goodput of a long run with failures.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "simulator/analyses/failures.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Flags as they were given.
struct FailureFlags {
  std::string between_failures, checkpoint, interval, restart, work;
};

/// --mtbf --checkpoint --checkpoint-every --restart --run-time.
void declare_failures(CLI::App& app, FailureFlags& flags);

/// The results for a long run.
struct LongRun {
  FailureModel model;
  double goodput = 0;
  Duration best_interval{0};              ///< Daly's
  Duration effective_step{0};             ///< step including its share of checkpoints and lost work
  std::optional<Duration> work;           ///< work of the sampled runs …
  std::optional<GoodputSamples> samples;  ///< … and their goodput
};

/// Throws Error (usage) for flags that are malformed or lack others.
void require_valid(const FailureFlags& flags);

/// The results for valid flags; nothing without --mtbf.
std::optional<LongRun> long_run(const FailureFlags& flags, int devices, Duration step,
                                const FailureOptions& options);

/// goodput {expected, checkpoint_every_ns, best_checkpoint_every_ns, effective_step_ns, runs}.
void add_goodput(nlohmann::ordered_json& result, const std::optional<LongRun>& run);
/// The results in one or two sentences; empty without a run.
std::string goodput_sentence(const std::optional<LongRun>& run);

}  // namespace stagecraft
