// Golden values of Megatron-LM's continuous integration: medians of an iteration's time and peaks
// of memory, with the arguments of the run. The number of devices is in NVIDIA's recipes, not in
// the rows: eight, unless a row has "world_size". What the arguments do not say is Megatron-LM's
// default. A set for each kind of device.

#include <algorithm>
#include <map>

#include "planner/ledger/measured_sets.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::array unknowns{"product_rate",      "memory_rate",      "host_seconds",
                              "host_peer_seconds", "transfer_seconds", "step_seconds"};
constexpr int usual_world = 8;

/// Arguments of a launch line: text whatever they mean.
class Arguments {
 public:
  explicit Arguments(const Json& json) : json_(json) {}

  bool has(std::string_view name) const { return json_.contains(name); }
  bool flag(std::string_view name) const { return has(name) && json_[name].string() != "false"; }
  std::int64_t number(std::string_view name, std::int64_t otherwise) const {
    if (!has(name)) return otherwise;
    const std::string text = json_[name].string();
    const bool digits = !text.empty() && text.size() < 10 &&
                        text.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) json_[name].fail(concat("expected a whole number, found \"", text, "\""));
    return std::stoll(text);
  }
  int small(std::string_view name, int otherwise = 1) const {
    return static_cast<int>(number(name, otherwise));
  }
  std::string word(std::string_view name) const { return has(name) ? json_[name].string() : ""; }

 private:
  Json json_;
};

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
std::string reason_against(const Json& row, const Arguments& arguments) {
  const std::string name = row["case"].string();
  if (device_of(row["hw"].string()).empty())
    return concat("no device kind is known for ", row["hw"].string());
  for (const std::string_view other : {"t5", "mimo", "multimodal", "nemotron", "mamba", "hybrid",
                                       "grpo", "inference", "retro", "flextron", "llava", "muon"}) {
    if (name.find(other) != std::string::npos)
      return concat("layers or steps of ", other, " are not described by its arguments");
  }
  for (const std::string_view needed : {"--num-layers", "--global-batch-size", "--seq-length"}) {
    if (!arguments.has(needed)) return concat("it does not say ", needed);
  }
  if (name.find("release") != std::string::npos && !row.contains("world_size"))
    return "a release run's number of devices is in its recipe, not in the row (\"world_size\")";
  if (arguments.has("--pipeline-model-parallel-layout")) return "it has a layout of its own";
  return "";
}

Transformer transformer_of(const Arguments& arguments) {
  const std::int64_t hidden = arguments.number("--hidden-size", 0);
  const std::int64_t heads = arguments.number("--num-attention-heads", 1);
  const bool gated = arguments.flag("--swiglu");
  Transformer transformer{
      .hidden = hidden,
      .heads = heads,
      .key_value_heads = arguments.number("--num-query-groups", heads),
      .head_width = hidden / heads,
      .feed_forward = arguments.number("--ffn-hidden-size", 4 * hidden),
      .vocabulary = arguments.number("--vocab-size", 50304),
      .positions = arguments.number("--seq-length", 1),
      .activation = gated ? Transformer::FeedForward::swiglu : Transformer::FeedForward::gelu};
  if (arguments.has("--num-experts")) {
    transformer.experts = Experts{.count = arguments.number("--num-experts", 1),
                                  .active = arguments.number("--moe-router-topk", 2),
                                  .feed_forward = transformer.feed_forward};
  }
  return transformer;
}

Recomputed recompute_of(const Arguments& arguments) {
  const std::string word = arguments.word("--recompute-granularity");
  if (word == "full") return Recomputed::full;
  return word == "selective" ? Recomputed::selective : Recomputed::none;
}

Recipe recipe_of(const Json& row, const Arguments& arguments) {
  Recipe recipe;
  recipe.transformer = transformer_of(arguments);
  recipe.device = device_of(row["hw"].string());
  recipe.blocks = arguments.small("--num-layers");
  recipe.pipeline = arguments.small("--pipeline-model-parallel-size");
  recipe.first_stage_blocks = arguments.small("--decoder-first-pipeline-num-layers", 0);
  recipe.last_stage_blocks = arguments.small("--decoder-last-pipeline-num-layers", 0);
  const int chunk = arguments.small("--num-layers-per-virtual-pipeline-stage", 0);
  recipe.virtual_stages = chunk > 0 ? std::max(1, recipe.blocks / (recipe.pipeline * chunk))
                                    : arguments.small("--num-virtual-stages-per-pipeline-rank");
  recipe.sharded_optimizer = arguments.flag("--use-distributed-optimizer");
  recipe.overlapped_gradients = arguments.flag("--overlap-grad-reduce");
  recipe.weight_stubs = arguments.word("--transformer-impl") == "transformer_engine";
  const bool half = arguments.flag("--bf16") || arguments.flag("--fp16");
  recipe.work = {.microbatch = arguments.number("--micro-batch-size", 1),
                 .sequence = arguments.number("--seq-length", 1),
                 .tensor_parallel = arguments.small("--tensor-model-parallel-size"),
                 .sequence_parallel = arguments.flag("--sequence-parallel"),
                 .context_parallel = arguments.small("--context-parallel-size"),
                 .expert_parallel = arguments.small("--expert-model-parallel-size"),
                 .precision = half ? Precision::bfloat16 : Precision::float32,
                 .recompute = recompute_of(arguments),
                 .fused_attention = arguments.word("--attention-backend") != "unfused",
                 .dropout = true};
  return recipe;
}

/// Sets the replicas; false if the degrees and the batch do not divide the devices.
bool spread(Recipe& recipe, const Json& row, const Arguments& arguments) {
  const int world =
      row.contains("world_size") ? row["world_size"].small_integer(1, 1'000'000) : usual_world;
  const int each = device_count(recipe);
  const int batch = arguments.small("--global-batch-size");
  if (world % each != 0) return false;
  recipe.data = world / each;
  const int at_once = recipe.data * static_cast<int>(recipe.work.microbatch);
  if (batch % at_once != 0) return false;
  recipe.microbatches = batch / at_once;
  return recipe.blocks >= recipe.pipeline * recipe.virtual_stages;
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
  const Arguments arguments(row["args"]);
  const std::string device = device_of(row["hw"].string());
  const std::string name = concat("megatron-ci-", device.empty() ? "others" : device);
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
      Recipe recipe = recipe_of(row, arguments);
      if (spread(recipe, row, arguments)) {
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
