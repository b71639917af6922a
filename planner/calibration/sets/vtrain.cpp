// Measurements beside vTrain (Bang et al. 2024): iterations of Megatron-DeepSpeed on A100-80GB with
// activation checkpointing. The layers are GPT's; scores are written to memory, as that release
// did; the vocabulary is GPT-2's, padded to 128 x tensor-parallel degree.

#include "planner/calibration/measured_sets.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::array vtrain_unknowns{
    "product_rate", "product_depth",     "product_outputs", "memory_rate",  "kernel_seconds",
    "host_seconds", "host_peer_seconds", "message_seconds", "peer_seconds", "inside_rate",
    "between_rate", "transfer_seconds",  "update_rate",     "step_seconds"};

int count(const Json& row, std::string_view name) {
  return row[name].small_integer(1, 1'000'000'000);
}

std::int64_t padded_vocabulary(std::int64_t words, std::int64_t degree) {
  const std::int64_t multiple = 128 * degree;
  return (words + multiple - 1) / multiple * multiple;
}

Recipe vtrain_recipe(const Json& row) {
  Recipe recipe;
  Transformer& transformer = recipe.transformer;
  transformer.hidden = count(row, "hidden size");
  transformer.heads = transformer.key_value_heads = count(row, "attention heads");
  transformer.head_width = transformer.hidden / transformer.heads;
  transformer.feed_forward = 4 * transformer.hidden;
  transformer.positions = count(row, "sequence length");
  recipe.blocks = count(row, "# layers");
  recipe.pipeline = count(row, "pipeline parallelism");
  recipe.data = count(row, "data parallelism");
  // DeepSpeed's pipelines send each tensor-parallel peer's part and gather them there
  // (deepspeed/runtime/pipe/engine.py, is_pipe_partitioned).
  recipe.scatter_gather = true;
  recipe.work = {.microbatch = count(row, "micro batch"),
                 .sequence = transformer.positions,
                 .tensor_parallel = count(row, "tensor parallelism"),
                 .precision = Precision::float16,
                 .recompute = Recomputed::full,
                 .fused_attention = false,
                 .dropout = true,
                 .gradient_bytes = 2};
  transformer.vocabulary = padded_vocabulary(50257, recipe.work.tensor_parallel);
  const int batch = count(row, "global batch");
  const int of_all = count(row, "micro batch") * recipe.data;
  if (batch % of_all != 0) {
    row["global batch"].fail(
        concat("expected a multiple of micro batch x data parallelism = ", of_all));
  }
  recipe.microbatches = batch / of_all;
  return recipe;
}

MeasuredRow row_of(const Json& row, int number) {
  const Recipe recipe = vtrain_recipe(row);
  const int devices = device_count(recipe);
  if (count(row, "# GPUs") != devices) {
    row["# GPUs"].fail(concat("expected the product of the degrees, ", devices));
  }
  const std::string model = concat(recipe.transformer.hidden, " x ", recipe.blocks);
  const int batch = count(row, "global batch");
  MeasuredRow result = recipe_row(
      recipe,
      concat("row ", number, ": ", model, ", batch ", batch, ", t", recipe.work.tensor_parallel,
             " p", recipe.pipeline, " d", recipe.data, " b", recipe.work.microbatch),
      row["iteration time (ms)"].number() / 1000);
  result.family = model;
  result.kind = concat("hidden ", recipe.transformer.hidden);
  result.problem = concat(model, ", ", devices, " devices, batch ", batch);
  return result;
}

void add_set(std::vector<MeasuredSet>& sets, const Json& json, std::string_view member,
             std::string name) {
  if (!json.contains(member)) return;
  MeasuredSet set{.name = std::move(name),
                  .source = json.contains("source") ? json["source"].string() : "",
                  .device = "a100-80gb",
                  .unknowns = {vtrain_unknowns.begin(), vtrain_unknowns.end()},
                  .start = usual_constants("a100-80gb")};
  // That release's host is slow; a node of eight has 800 Gb/s ("inter_node_bandwidth" of their
  // config/validation/multi), 100 for each of the ports of 200 that the device kind has.
  set.start.host_seconds = 5e-5;
  set.start.between_rate = 0.5;
  set.assumptions = {
      "scores in memory, dropout, fp16 gradients, full recomputation; vocabulary 50257, padded"};
  int number = 0;
  for (const Json& row : json[member].elements()) set.rows.push_back(row_of(row, ++number));
  if (!set.rows.empty()) sets.push_back(std::move(set));
}

bool has_rows(const Json& json, std::string_view member) {
  return json.contains(member) && json[member].is_array() && !json[member].elements().empty() &&
         json[member][0].is_object() && json[member][0].contains("iteration time (ms)");
}

}  // namespace

bool is_vtrain(const Json& json) {
  return has_rows(json, "single_node") || has_rows(json, "multi_node");
}

std::vector<MeasuredSet> read_vtrain(const Json& json) {
  std::vector<MeasuredSet> sets;
  add_set(sets, json, "single_node", "vtrain-single-node");
  add_set(sets, json, "multi_node", "vtrain-multi-node");
  return sets;
}

}  // namespace stagecraft
