// A whole training run, in tokens: how long it takes, and what it costs.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.hpp"
#include "profiles/cluster.hpp"
#include "profiles/units.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Flags as they were given.
struct TrainingRunFlags {
  std::string tokens;
  std::vector<std::string> prices;
};

/// --tokens and --price.
void declare_training_run(CLI::App& app, TrainingRunFlags& flags);

/// "a100=2.5/h": what an hour of such a device costs. Throws Error (usage) for a kind that the
/// cluster does not have.
void set_price(Cluster& cluster, const std::string& text);

/// What was found out.
struct TrainingRun {
  std::string tokens;  ///< as they were given
  double count = 0;
  double steps = 0;
  double hours = 0;
  double device_hours = 0;
  std::optional<double> cost;  ///< where all kinds of devices that the plan uses have a price
};

/// Nothing without --tokens. The step counts with its part of failures, where they are. Throws
/// Error (usage) for a number that is none, and a model whose samples are not sequences.
std::optional<TrainingRun> training_run(const std::string& tokens, const Plan& plan,
                                        const Cluster& cluster, Duration step);

/// "15T tokens take 62.3 days: 1,430,512 steps, 191,400 GPU-hours, which cost 478,500";
/// empty without.
std::string training_run_sentence(const std::optional<TrainingRun>& run, const Plan& plan,
                                  const Cluster& cluster);
/// "62.3 days", "5.2 hours".
std::string words_of_hours(double hours);
/// training {tokens, steps, hours, device_hours, cost}.
void add_training_run(nlohmann::ordered_json& result, const std::optional<TrainingRun>& run);

}  // namespace stagecraft
