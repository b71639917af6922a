// Golden values of Megatron-LM's continuous integration: medians of an iteration's time and peaks
// of memory, with the arguments of the run. The number of devices is in NVIDIA's recipes, not in
// the rows: eight, unless a row has "world_size". What the arguments do not say is Megatron-LM's
// default. A set for each kind of device; runs that were resumed from a checkpoint ("_2nd") are one
// of their own: on H100 the same arguments take up to a third less there.

#include <map>

#include "planner/ledger/measured_sets.hpp"
#include "planner/ledger/megatron_arguments.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::array unknowns{"product_rate",      "memory_rate",      "host_seconds",
                              "host_peer_seconds", "transfer_seconds", "step_seconds"};
constexpr int usual_world = 8;

/// Arguments of a launch line; values are text whatever they mean.
MegatronArguments arguments_in(const Json& json) {
  MegatronArguments arguments;
  for (const std::string& name : json.names())
    arguments.set(name, {json[name].string(), {json.file(), 0, 0}});
  return arguments;
}

struct Hardware {
  std::string_view word, device;
};
constexpr std::array hardware{Hardware{"a100", "a100-80gb"}, Hardware{"h100", "h100"}};

std::string device_of(const std::string& name) {
  for (const Hardware& known : hardware) {
    if (name.find(known.word) != std::string::npos) return std::string(known.device);
  }
  return "";
}

/// Why a row cannot be predicted; empty if it can.
std::string reason_against(const Json& row, const MegatronArguments& arguments) {
  const std::string name = row["case"].string();
  if (device_of(row["hw"].string()).empty())
    return concat("no device kind is known for ", row["hw"].string());
  for (const std::string_view other : {"t5", "mimo", "multimodal", "nemotron", "mamba", "hybrid",
                                       "grpo", "inference", "retro", "flextron", "llava", "muon"}) {
    if (name.find(other) != std::string::npos)
      return concat("layers or steps of ", other, " are not described by its arguments");
  }
  for (const std::string_view needed : {"num-layers", "global-batch-size", "seq-length"}) {
    if (!arguments.has(needed)) return concat("it does not say --", needed);
  }
  if (name.find("release") != std::string::npos && !row.contains("world_size"))
    return "a release run's number of devices is in its recipe, not in the row (\"world_size\")";
  if (arguments.has("pipeline-model-parallel-layout")) return "it has a layout of its own";
  return "";
}

MeasuredRow row_of(const Json& row, const Recipe& recipe) {
  MeasuredRow result = recipe_row(recipe, concat(row["case"].string(), ", ", row["file"].string()),
                                  row["iter_time_median_s"].number());
  const std::string name = row["case"].string();
  result.family = name;
  result.kind = name.substr(0, name.find('/'));
  result.problem = result.label;
  if (row.contains("mem_max_allocated_bytes") && row["mem_max_allocated_bytes"].is_number()) {
    result.memory = static_cast<Bytes>(row["mem_max_allocated_bytes"].number());
    result.predicted_memory = stage_memory(recipe).front().total();
  }
  return result;
}

void add(std::map<std::string, MeasuredSet>& sets, const Json& row, const std::string& source) {
  const MegatronArguments arguments = arguments_in(row["args"]);
  const std::string device = device_of(row["hw"].string());
  const bool resumed = row["hw"].string().ends_with("_2nd");
  const std::string name = concat("megatron-ci-", device.empty() ? "others" : device,
                                  !device.empty() && resumed ? "-resumed" : "");
  if (!sets.contains(name)) {
    MeasuredSet set{.name = name, .source = source, .device = device.empty() ? "h100" : device};
    set.unknowns = {unknowns.begin(), unknowns.end()};
    set.start = usual_constants(set.device);
    // Small models: the host is what counts.
    set.start.host_seconds = 2e-5;
    set.assumptions = {
        "eight devices unless a row has \"world_size\", GPT-2's vocabulary, Megatron-LM's "
        "defaults; memory of the first stage"};
    sets[name] = std::move(set);
  }
  std::string reason = reason_against(row, arguments);
  if (reason.empty()) {
    try {
      Recipe recipe = recipe_of(arguments);
      recipe.device = device;
      const int world =
          row.contains("world_size") ? row["world_size"].small_integer(1, 1'000'000) : usual_world;
      if (spread(recipe, world, arguments.small("global-batch-size"))) {
        sets[name].rows.push_back(row_of(row, recipe));
        return;
      }
      reason = "degrees and batch do not divide the devices";
    } catch (const Error& error) {
      reason = error.message();
    }
  }
  sets[name].left_out.push_back(
      concat(row["case"].string(), ", ", row["file"].string(), ": ", reason));
}

}  // namespace

bool is_megatron_ci(const Json& json) {
  if (!json.contains("rows") || !json["rows"].is_array()) return false;
  const std::vector<Json> rows = json["rows"].elements();
  return !rows.empty() && rows[0].is_object() && rows[0].contains("iter_time_median_s") &&
         rows[0].contains("args");
}

std::vector<MeasuredSet> read_megatron_ci(const Json& json) {
  std::map<std::string, MeasuredSet> sets;
  for (const Json& row : json["rows"].elements()) add(sets, row, json["source"].string());
  std::vector<MeasuredSet> result;
  for (auto& [name, set] : sets) result.push_back(std::move(set));
  return result;
}

}  // namespace stagecraft
