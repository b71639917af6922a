// The weak-scaling table of Megatron Core's README on H100: sequences of 4096 tokens, a vocabulary
// of 131072. Rates become times by the operations of the model without recomputation.

#include <algorithm>

#include "planner/calibration/measured_sets.hpp"
#include "profiles/error.hpp"
#include "profiles/transformer.hpp"

namespace stagecraft {

namespace {

constexpr std::array core_table_unknowns{"product_rate"};
constexpr int core_sequence = 4096, core_vocabulary = 131072;

Recipe core_table_recipe(const Json& row) {
  Recipe recipe;
  const std::int64_t hidden = row["hidden"].integer(1, 1 << 20);
  const std::int64_t heads = row["heads"].integer(1, 1 << 16);
  recipe.transformer = {.hidden = hidden,
                        .heads = heads,
                        .key_value_heads = heads,
                        .head_width = hidden / heads,
                        .feed_forward = 4 * hidden,
                        .vocabulary = core_vocabulary,
                        .positions = core_sequence};
  recipe.device = "h100";
  recipe.blocks = row["layers"].small_integer(1, 100'000);
  recipe.pipeline = row["PP"].small_integer(1, 10'000);
  recipe.data = row["DP"].small_integer(1, 1'000'000);
  const int batch = row["batch"].small_integer(1, 100'000'000);
  recipe.microbatches = std::max(1, batch / recipe.data);
  recipe.virtual_stages = 1;
  // One block in each chunk, where pipelines interleave.
  if (recipe.pipeline > 1 && recipe.microbatches % recipe.pipeline == 0)
    recipe.virtual_stages = recipe.blocks / recipe.pipeline;
  recipe.sharded_optimizer = true;
  recipe.overlapped_gradients = recipe.overlapped_parameters = true;
  recipe.overlapped_messages = recipe.overlapped_transfers = true;
  recipe.work = {.sequence = core_sequence,
                 .tensor_parallel = row["TP"].small_integer(1, 1024),
                 .precision = Precision::bfloat16};
  recipe.work.sequence_parallel = recipe.work.tensor_parallel > 1;
  return recipe;
}

/// Three times the forward products, attention in full, as Megatron-LM counts.
double operations_of_all_attention(const Recipe& recipe) {
  const auto of = [&](LayerKind kind) {
    const TransformerFlops flops = layer_flops(recipe.transformer, kind, core_sequence);
    return 3 * (flops.linear + flops.attention);
  };
  return recipe.blocks * of(LayerKind::transformer) + of(LayerKind::head);
}

}  // namespace

bool is_megatron_core_table(const Json& json) {
  if (!json.contains("rows") || !json["rows"].is_array()) return false;
  const std::vector<Json> rows = json["rows"].elements();
  return !rows.empty() && rows[0].is_object() && rows[0].contains("tflops_per_gpu") &&
         rows[0].contains("TP");
}

std::vector<MeasuredSet> read_megatron_core_table(const Json& json) {
  MeasuredSet set{.name = "megatron-core-h100",
                  .source = json["source"].string(),
                  .device = "h100",
                  .unknowns = {core_table_unknowns.begin(), core_table_unknowns.end()},
                  .start = usual_constants("h100")};
  for (const Json& row : json["rows"].elements()) {
    const Recipe recipe = core_table_recipe(row);
    const double batch = static_cast<double>(recipe.microbatches) * recipe.data;
    const double seconds = batch * operations_of_all_attention(recipe) /
                           (row["tflops_per_gpu"].number() * 1e12 * device_count(recipe));
    MeasuredRow result = recipe_row(
        recipe, concat(row["model"].string(), " on ", device_count(recipe), " GPUs"), seconds);
    result.family = result.problem = result.label;
    set.rows.push_back(std::move(result));
  }
  // The one in the middle: the table goes from the smallest model to the largest.
  if (!set.rows.empty()) set.fit_on = set.rows[set.rows.size() / 2].label;
  set.assumptions = {
      "microbatches of one sequence, sequence parallelism, fused attention, ZeRO-1, messages "
      "overlap, "
      "one block in each chunk where pipelines interleave"};
  return {std::move(set)};
}

}  // namespace stagecraft
