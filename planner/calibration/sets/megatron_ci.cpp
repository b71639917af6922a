// Golden values of Megatron-LM's continuous integration: medians of an iteration's time and peaks
// of memory of the last rank, which writes them (megatron/training/global_vars.py), with arguments
// of the run; `megatron_missing_arguments.hpp` has others. The number of devices is in NVIDIA's
// recipes (tests/test_utils/recipes), not in the rows: eight, unless a row has "world_size"; GB200
// stand in hosts of four, and "_1node" runs on one. What the arguments do not say is Megatron-LM's
// default. A set for each kind of device; runs that were resumed from a checkpoint ("_2nd") are one
// of their own: on H100 the same arguments take up to a third less there. So are those on one host
// of GB200, which take up to 18 times as long as on two, and models of 7 billion parameters and
// more, whose time is not the host's.

#include <map>

#include "planner/calibration/measured_sets.hpp"
#include "planner/calibration/sets/megatron_missing_arguments.hpp"
#include "planner/interop/importers/megatron_layout.hpp"
#include "profiles/error.hpp"
#include "profiles/transformer.hpp"

namespace stagecraft {

namespace {

constexpr std::array megatron_ci_unknowns{"product_rate",      "memory_rate",      "host_seconds",
                                          "host_peer_seconds", "transfer_seconds", "step_seconds"};
/// A module's work of the host, in kernels: as the ledger fits it on a quarter of this set, in the
/// mean of draws.
constexpr std::string_view of_modules = "megatron-ci-a100-80gb";
constexpr double launches_fitted = 7;
constexpr int usual_world = 8;
constexpr std::string_view of_large = "megatron-ci-7b-and-more";
constexpr std::int64_t large = 7'000'000'000;

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
constexpr std::array ci_devices{Hardware{"gb200", "gb200"}, Hardware{"a100", "a100-80gb"},
                                Hardware{"h100", "h100"}};

std::string device_of(const std::string& name) {
  for (const Hardware& known : ci_devices) {
    if (name.find(known.word) != std::string::npos) return std::string(known.device);
  }
  return "";
}

/// Why a row cannot be predicted; empty if it can.
std::string reason_against(const Json& row, const MegatronArguments& arguments) {
  const std::string name = row["case"].string();
  if (device_of(row["hw"].string()).empty())
    return concat("no device kind is known for ", row["hw"].string());
  for (const std::string_view other :
       {"t5", "mimo", "multimodal", "nemotron", "mamba", "hybrid", "grpo", "inference", "zp_z3",
        "fsdp", "retro", "flextron", "llava", "muon"}) {
    if (name.find(other) != std::string::npos)
      return concat("layers or steps of ", other, " are not described by its arguments");
  }
  for (const std::string_view needed : {"num-layers", "global-batch-size", "seq-length"}) {
    if (!arguments.has(needed)) return concat("it does not say --", needed);
  }
  if (name.find("release") != std::string::npos && !row.contains("world_size") &&
      !arguments.has("world-size"))
    return "a release run's number of devices is in a recipe that is not public";
  return "";
}

/// Virtual stages as the layout has them; false unless each device's blocks are as even as those of
/// the recipe.
bool follow_layout(Recipe& recipe, std::string layout) {
  std::erase(layout, '"');
  const std::vector<MegatronStage> stages = read_megatron_layout(layout);
  const auto ranks = static_cast<std::size_t>(recipe.pipeline);
  if (stages.size() % ranks != 0) return false;
  std::vector<int> blocks(ranks, 0);
  for (std::size_t i = 0; i < stages.size(); ++i) blocks[i % ranks] += stages[i].layers;
  recipe.virtual_stages = static_cast<int>(stages.size() / ranks);
  return blocks == stage_blocks(recipe);
}

/// BERT's layers and its uncased vocabulary, the default of pretrain_bert.py.
void become_bert(Transformer& transformer, int tensor) {
  constexpr std::int64_t words = 30522;
  const std::int64_t multiple = 128 * std::int64_t{tensor};
  transformer.vocabulary = (words + multiple - 1) / multiple * multiple;
  transformer.causal = false;
  transformer.token_types = true;
}

/// On which devices, and what arguments name only by the case.
void place(Recipe& recipe, const std::string& name, const std::string& device,
           const MegatronArguments& arguments) {
  recipe.device = device;
  // NVLink joins the hosts of a rack.
  if (device == "gb200") recipe.devices_per_node = 72;
  if (name.starts_with("bert/")) become_bert(recipe.transformer, recipe.work.tensor_parallel);
  recipe.workspace =
      product_workspace(device, {.transformer_engine = recipe.weight_stubs,
                                 .grouped = arguments.flag("moe-grouped-gemm"),
                                 .deterministic = arguments.flag("deterministic-mode")});
}

int world_of(const Json& row, const std::string& name, const MegatronArguments& arguments) {
  if (row.contains("world_size")) return row["world_size"].small_integer(1, 1'000'000);
  return arguments.small("world-size", name.ends_with("_1node") ? 4 : usual_world);
}

std::int64_t parameters_of(const Recipe& recipe) {
  const Transformer& transformer = recipe.transformer;
  std::int64_t sum = layer_parameters(transformer, LayerKind::embedding) +
                     layer_parameters(transformer, LayerKind::head);
  for (int block = 0; block < recipe.blocks; ++block)
    sum += layer_parameters(transformer, block_kind(transformer, block));
  return sum;
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
    result.predicted_memory = stage_memory(recipe).back().total();
  }
  return result;
}

std::string set_name(const std::string& name, const std::string& device,
                     const std::string& machines) {
  if (device.empty()) return "megatron-ci-others";
  return concat("megatron-ci-", device, name.ends_with("_1node") ? "-one-host" : "",
                machines.ends_with("_2nd") ? "-resumed" : "");
}

/// A step by the device's own constants: those given are of the set's.
std::function<double(const KernelConstants&, double)> predicted_by_device(
    const Recipe& recipe, const std::string& of_set) {
  return [recipe, of_set](const KernelConstants& constants, double factor) {
    const bool own = recipe.device == of_set;
    return step_seconds(recipe, own ? constants : usual_constants(recipe.device), factor).step;
  };
}

/// Small models: the host is what counts. How much of it a module takes is a matter of the
/// framework, so one set tells the others: the one with most rows, from a start where Transformer
/// Engine's product takes 99.7 us of a Grace, PyTorch's own 37.1 (NVIDIA/TransformerEngine, issue
/// 2053).
void start_with_host(MeasuredSet& set) {
  constexpr double of_product = 99.7 / 37.1 - 1;
  const bool fits = set.name == of_modules;
  set.start.host_seconds = 2e-5;
  set.start.module_launches = fits ? of_product : launches_fitted;
  set.unknowns = {megatron_ci_unknowns.begin(), megatron_ci_unknowns.end()};
  if (fits) set.unknowns.emplace_back("module_launches");
}

MeasuredSet& set_named(std::map<std::string, MeasuredSet>& sets, const std::string& name,
                       const std::string& device, const std::string& source) {
  if (sets.contains(name)) return sets[name];
  MeasuredSet set{.name = name, .source = source, .device = device.empty() ? "h100" : device};
  set.start = usual_constants(set.device);
  if (name == of_large) {
    set.device = "h100";
    set.start = usual_constants(set.device);
    set.assumptions = {
        "each device's usual constants; nothing is fitted here",
        "numbers of devices inferred from what runs hold between steps, so that this part of the "
        "memory is known beforehand; the last stage's memory"};
  } else {
    start_with_host(set);
    set.assumptions = {
        "devices as in Megatron-LM's recipes, eight unless a row has \"world_size\", GPT-2's "
        "vocabulary, BERT's for BERT, Megatron-LM's defaults; the last stage's memory"};
  }
  return sets[name] = std::move(set);
}

void add(std::map<std::string, MeasuredSet>& sets, const Json& row, const std::string& source) {
  const std::string name = row["case"].string();
  const std::string device = device_of(row["hw"].string());
  const std::string of_device = set_name(name, device, row["hw"].string());
  MegatronArguments arguments = arguments_in(row["args"]);
  complete_arguments(name, arguments);
  std::string reason = reason_against(row, arguments);
  if (reason.empty()) {
    try {
      Recipe recipe = recipe_of(arguments);
      place(recipe, name, device, arguments);
      const std::string layout = arguments.word("pipeline-model-parallel-layout");
      const bool even = layout.empty() || follow_layout(recipe, layout);
      if (even &&
          spread(recipe, world_of(row, name, arguments), arguments.small("global-batch-size"))) {
        const bool is_large = parameters_of(recipe) >= large;
        MeasuredSet& set =
            set_named(sets, is_large ? std::string(of_large) : of_device, device, source);
        set.rows.push_back(row_of(row, recipe));
        if (is_large) set.rows.back().predict = predicted_by_device(recipe, set.device);
        return;
      }
      reason = even ? "degrees and batch do not divide the devices" : "it has a layout of its own";
    } catch (const Error& error) {
      reason = error.message();
    }
  }
  set_named(sets, of_device, device, source)
      .left_out.push_back(concat(name, ", ", row["file"].string(), ": ", reason));
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
