// The flags that ask what failures leave of a long run.

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

/// What was found out.
struct LongRun {
  FailureModel model;
  double goodput = 0;
  Duration best_interval{0};              ///< Daly's
  Duration effective_step{0};             ///< with its part of checkpoints and lost work
  std::optional<Duration> work;           ///< of the sampled runs …
  std::optional<GoodputSamples> samples;  ///< … and how they went
};

/// Throws Error (usage) for flags that are malformed or lack others.
void require_valid(const FailureFlags& flags);

/// Of valid flags; nothing without --mtbf.
std::optional<LongRun> long_run(const FailureFlags& flags, int devices, Duration step,
                                const FailureOptions& options);

/// goodput {expected, checkpoint_every_ns, best_checkpoint_every_ns, effective_step_ns, runs}.
void add_goodput(nlohmann::ordered_json& result, const std::optional<LongRun>& run);
/// The same in a sentence or two; empty without.
std::string goodput_sentence(const std::optional<LongRun>& run);

}  // namespace stagecraft
