// Training runs that reports of large models tell of: so far Llama 3 405B (Grattafiori et al. 2024,
// table 4), of which a row is devices, degrees, tokens and TFLOP/s per device. The constants are
// calibrated on the first row.

#include "planner/calibration/measured_sets.hpp"
#include "profiles/error.hpp"
#include "profiles/transformer.hpp"

namespace stagecraft {

namespace {

constexpr std::array production_unknowns{"product_rate"};

/// What the table's columns are called, in its member "fields".
class Row {
 public:
  Row(const Json& fields, const Json& row) : fields_(fields), row_(row) {}

  double number(std::string_view name) const { return cell(name).number(); }
  int count(std::string_view name) const { return cell(name).small_integer(1, 10'000'000); }

 private:
  Json cell(std::string_view name) const {
    const std::vector<Json> names = fields_.elements();
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i].string() == name) return row_[i];
    }
    fields_.fail(concat("expected a field \"", name, "\""));
  }

  const Json fields_, row_;
};

/// 126 blocks in chunks of one, one fewer on the first and on the last stage.
Recipe recipe_of(const Row& row) {
  Recipe recipe;
  recipe.transformer = builtin_model("llama3-405b").transformer.value();
  recipe.device = "h100";
  recipe.blocks = 126;
  recipe.pipeline = row.count("pp");
  recipe.virtual_stages = 7;
  recipe.first_stage_blocks = recipe.last_stage_blocks = 7;
  recipe.data = row.count("dp");
  recipe.microbatches = row.count("batch_per_dp");
  recipe.sharded_optimizer = true;
  recipe.overlapped_gradients = recipe.overlapped_parameters = true;
  recipe.overlapped_messages = recipe.overlapped_transfers = true;
  recipe.work = {.sequence = row.count("seq"),
                 .tensor_parallel = row.count("tp"),
                 .sequence_parallel = true,
                 .context_parallel = row.count("cp"),
                 .precision = Precision::bfloat16};
  return recipe;
}

/// Three times the forward products, attention as far as the causal mask leaves it.
double operations_of_causal_attention(const Recipe& recipe) {
  const auto of = [&](LayerKind kind) {
    const TransformerFlops flops = layer_flops(recipe.transformer, kind, recipe.work.sequence);
    return 3 * (flops.linear + flops.attention / 2);
  };
  return recipe.blocks * of(LayerKind::transformer) + of(LayerKind::head);
}

}  // namespace

bool is_production_runs(const Json& json) {
  return json.contains("llama3_405B") && json["llama3_405B"].is_object() &&
         json["llama3_405B"].contains("table4") && json["llama3_405B"].contains("fields");
}

std::vector<MeasuredSet> read_production_runs(const Json& json) {
  const Json runs = json["llama3_405B"];
  MeasuredSet set{.name = "llama3-405b",
                  .source = runs.contains("source") ? runs["source"].string() : "",
                  .device = "h100",
                  .unknowns = {production_unknowns.begin(), production_unknowns.end()},
                  .start = usual_constants("h100")};
  for (const Json& cells : runs["table4"].elements()) {
    const Row row(runs["fields"], cells);
    const Recipe recipe = recipe_of(row);
    if (row.count("gpus") != device_count(recipe)) {
      cells.fail(concat("expected the product of the degrees, ", device_count(recipe), " devices"));
    }
    const double samples = static_cast<double>(recipe.microbatches) * recipe.data;
    const double seconds = samples * operations_of_causal_attention(recipe) /
                           (row.number("tflops_per_gpu") * 1e12 * device_count(recipe));
    MeasuredRow result = recipe_row(
        recipe,
        concat(device_count(recipe), " GPUs, context parallel ", recipe.work.context_parallel),
        seconds);
    result.family = result.problem = result.label;
    set.rows.push_back(std::move(result));
  }
  if (!set.rows.empty()) set.fit_on = set.rows.front().label;
  set.assumptions = {
      "attention counted as the causal mask leaves it; chunks of one block; optimizer states "
      "sharded; messages and sums "
      "of gradients overlap"};
  return {std::move(set)};
}

}  // namespace stagecraft
