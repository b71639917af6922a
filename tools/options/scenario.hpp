// The flags of simulating verbs for schedules: names, shapes, and costs of instructions.

#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "simulator/lowering/lower.hpp"
#include "simulator/simulate.hpp"
#include "simulator/views/torch_csv.hpp"
#include "tools/console.hpp"
#include "tools/options/conditions.hpp"
#include "tools/options/shape_options.hpp"

namespace stagecraft {

/// Flags as they were given.
struct ScenarioOptions {
  std::string schedule;      ///< a list makes a sweep, as in stages, virtual stages, microbatches
  std::string microbatches;  ///< per iteration
  ShapeOptions shape{.stages = ""};
  std::string forward, backward, backward_input, backward_weight, fused;
  std::string transfer = "0ns";
  std::string recompute = "none";
  std::string message, bandwidth, activations;
  std::string activations_for_weight;  ///< a size, with `activations`, or a percentage; empty: all
  std::optional<int> devices_per_node;
  std::string norm = "none";
  std::string norm_time;  ///< empty: the same as `transfer`
};

/// --schedule, the flags of its shape, --microbatches, durations, memory and bandwidth.
void declare_scenario(CLI::App& app, ScenarioOptions& options);

/// One schedule in one shape.
struct ScheduleSetting {
  const ScheduleKind* kind = nullptr;  ///< null: the schedule of `file`
  ScheduleShape shape;
  std::shared_ptr<const TorchSchedule> file = {};
  GradientNorm norm = GradientNorm::none;
};
std::string name_of(const ScheduleSetting& setting);

/// All combinations of the lists, in the order schedules, stages, virtual stages, microbatches.
/// Files have their own shape. Throws Error (usage) if a flag is missing or malformed.
std::vector<ScheduleSetting> settings_of(const ScenarioOptions& options, Console& console);

/// schedule, stages, microbatches, virtual; the norm if there is one.
nlohmann::ordered_json setting_json(const ScheduleSetting& setting);

/// The checked program of a setting, with its costs.
struct Scenario {
  ScheduleSetting setting;
  LowerOptions lowering;
  Program program;
  Costs costs;
  Cluster cluster;  ///< generic devices with the links of the flags
};

/// The environment of these conditions for the scenario; see `conditions.hpp`.
std::optional<Environment> environment_of(const ConditionOptions& options,
                                          const Scenario& scenario);

/// Throws Error (usage) if the schedule does not accept the shape, or if durations are missing.
Scenario scenario_of(ScheduleSetting setting, const ScenarioOptions& options);

}  // namespace stagecraft
