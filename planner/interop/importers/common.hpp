// Common parts of plan importers: the properties of a plan that a file may leave open.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/interop/importers.hpp"
#include "planner/plan/foreign_stage.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

/// Where a value of a JSON file stands.
SourcePlace place_of(const Json& json);

/// The treatment of a setting in another system's file.
enum class Meaning { taken, no_bearing, not_modelled };
struct KeyMeaning {
  std::string_view name;  ///< "zero_optimization.stage"; with a star at its end all that begin so
  Meaning meaning;
  std::string_view as_modelled = {};  ///< the value that plans are costed with
};
/// The longest row that fits; null if none does.
const KeyMeaning* meaning_of(std::span<const KeyMeaning> rows, std::string_view path);
/// Puts the setting where it belongs: unknown without a row; understood where it is off, or is as
/// plans are costed.
void list_text(ImportedPlan& imported, const KeyMeaning* row, bool as_modelled, ReadText text);
/// Throws Error (input) for a file with mostly unknown settings, which is not one of `system`.
void require_mostly_known(const ImportedPlan& imported, std::string_view system);

/// Upper limit of a batch in a file.
inline constexpr std::int64_t most_samples = std::int64_t{1} << 40;

/// A plan for the question with everything that its options, its profile or defaults say; without
/// batch and stages. Layers that are estimated have the kernels of what reads such files.
Plan begin_plan(const PlanQuestion& question, Framework usual_kernels = Framework::megatron);

/// The file's value, else the option's. Throws Error (usage) if both are given.
template <class Value>
std::optional<Value> said_once(const std::optional<Value>& in_file, std::string_view member,
                               const std::optional<Value>& option, std::string_view flag) {
  if (in_file && option) fail_usage("the file has ", member, " already; leave ", flag, " away");
  return in_file ? in_file : option;
}

/// Samples per step and per microbatch, and tokens per sample. Throws Error (usage) if neither file
/// nor options say how many there are per step, (input) if they do not divide. Without a microbatch
/// each of the `replicas` that share it gets as many samples as the profile measured at the most,
/// or 1.
Batch batch_of(const PlanQuestion& question, std::optional<std::int64_t> global,
               std::optional<std::int64_t> microbatch, int replicas = 1);

/// How many of each: pipeline devices, replicas of each, tensor- and context-parallel peers.
struct Degrees {
  int pipeline = 1;
  int data = 1;
  int tensor = 1;
  int context = 1;
  int peers() const { return tensor * context; }
};
/// Replicas from the devices that are left: `devices` / (pipeline x tensor x context). Throws Error
/// (input) saying that `system` needs whole ones.
Degrees degrees_of(std::string_view system, int devices, int pipeline, int tensor, int context = 1);

/// Ranks as Megatron-LM, DeepSpeed and torch's meshes count them, tensor-parallel peers fastest,
/// then context-parallel ones, and pipeline stages slowest: the devices of one pipeline device.
std::vector<int> ranks_of(const Degrees& degrees, int pipeline_device);

/// The layers between two boundaries.
std::vector<int> layers_between(int first, int end);

/// The plan's schedule, its weights' policy with it; `name` as `schedule list` has it.
void set_schedule(Plan& plan, std::string_view name, int virtual_stages = 1);
/// Makes replicas process microbatches round-robin, under 1F1B and PipeDream's own schedule with
/// the warm-up that keeps all of them busy. Batch, schedule and stages must be set.
void take_turns(Plan& plan);
/// The option --schedule, or `usual`.
std::string_view schedule_name(const PlanQuestion& question, std::string_view usual);

}  // namespace stagecraft
