// A whole training run, in tokens: its duration and cost.

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

/// Sets a device kind's price per hour from "a100=2.5/h". Throws Error (usage) for a kind that the
/// cluster does not have.
void set_price(Cluster& cluster, const std::string& text);

/// The results for a training run.
struct TrainingRun {
  std::string tokens;  ///< number of tokens as given
  double count = 0;
  double steps = 0;
  double hours = 0;
  double device_hours = 0;
  std::optional<double> cost;  ///< set if all device kinds of the plan have a price
};

/// Nothing without --tokens. With failures, the step includes its share of them. Throws Error
/// (usage) for a malformed number, and for a model whose samples are not sequences.
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
