// Measurements of your own:
//
// {
//   "format": "stagecraft-measured/1",
//   "name": "our cluster, March",
//   "device": "h100",                        // a built-in kind
//   "devices_per_node": 8,                   // left out: 8
//   "fit": ["product_rate", "memory_rate"],  // constants (docs of kernel_times.hpp); left out:
//                                            // rates of products, attention and memory
//   "rows": [
//     {"label": "8B, t2 p4",                 // unique
//      "model": "llama3-8b",                 // a built-in transformer
//      "step": "1.23s",                      // measured
//      "peak_memory": "61GiB",               // of the heaviest device; may be left out
//      // All of these may be left out; degrees are 1 then, flags false, the rest as shown.
//      "blocks": 32, "sequence": 8192, "microbatch": 1, "microbatches": 8, "data": 1, "tensor": 2,
//      "pipeline": 4, "virtual_stages": 1, "context": 1, "expert": 1, "sequence_parallel": true,
//      "recompute": "none", "precision": "bf16", "unfused_attention": false, "fused_loss": false,
//      "dropout": false, "sharded_optimizer": true, "overlapped_gradients": true,
//      "overlapped_parameters": false, "overlapped_messages": false,
//      "overlapped_transfers": false, "float8_gathers": false}
//   ]
// }

#include <algorithm>

#include "planner/calibration/measured_sets.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr std::array usual_unknowns{"product_rate", "attention_rate", "memory_rate"};
constexpr int most = 1'000'000;

int degree(const Json& row, std::string_view name) {
  return row.contains(name) ? row[name].small_integer(1, most) : 1;
}

bool flag(const Json& row, std::string_view name) {
  return row.contains(name) && row[name].boolean();
}

Recomputed read_recompute(const Json& row) {
  if (!row.contains("recompute")) return Recomputed::none;
  const Json word = row["recompute"];
  for (const Recomputed known : {Recomputed::none, Recomputed::selective, Recomputed::full}) {
    if (to_string(known) == word.string()) return known;
  }
  word.fail("expected none, selective or full, found \"" + word.string() + "\"");
}

Model named_model(const Json& name) {
  try {
    return builtin_model(name.string());
  } catch (const Error& error) {
    name.fail(error.message());
  }
}

Recipe recipe_of(const Json& row, const std::string& device, int node) {
  const Model model = named_model(row["model"]);
  if (!model.transformer) row["model"].fail("expected a transformer");
  Recipe recipe;
  recipe.transformer = *model.transformer;
  recipe.device = device;
  recipe.devices_per_node = node;
  recipe.blocks = row.contains("blocks")
                      ? row["blocks"].small_integer(1, most)
                      : static_cast<int>(std::ranges::count_if(model.layers, is_block));
  recipe.pipeline = degree(row, "pipeline");
  recipe.virtual_stages = degree(row, "virtual_stages");
  recipe.data = degree(row, "data");
  recipe.microbatches = degree(row, "microbatches");
  recipe.sharded_optimizer = flag(row, "sharded_optimizer");
  recipe.overlapped_gradients = flag(row, "overlapped_gradients");
  recipe.overlapped_parameters = flag(row, "overlapped_parameters");
  recipe.overlapped_messages = flag(row, "overlapped_messages");
  recipe.overlapped_transfers = flag(row, "overlapped_transfers");
  recipe.float8_gathers = flag(row, "float8_gathers");
  recipe.work = {
      .microbatch = degree(row, "microbatch"),
      .sequence = row.contains("sequence") ? row["sequence"].integer(1, 1 << 28) : model.sequence,
      .tensor_parallel = degree(row, "tensor"),
      .sequence_parallel = flag(row, "sequence_parallel"),
      .context_parallel = degree(row, "context"),
      .expert_parallel = degree(row, "expert"),
      .recompute = read_recompute(row),
      .fused_attention = !flag(row, "unfused_attention"),
      .fused_loss = flag(row, "fused_loss") ? FusedLoss::te : FusedLoss::none,
      .dropout = flag(row, "dropout")};
  if (row.contains("precision")) recipe.work.precision = read_precision(row["precision"].string());
  return recipe;
}

MeasuredRow row_of(const Json& row, const std::string& device, int node) {
  row.allow_only({"label",
                  "model",
                  "step",
                  "peak_memory",
                  "blocks",
                  "sequence",
                  "microbatch",
                  "microbatches",
                  "data",
                  "tensor",
                  "pipeline",
                  "virtual_stages",
                  "context",
                  "expert",
                  "sequence_parallel",
                  "recompute",
                  "precision",
                  "unfused_attention",
                  "fused_loss",
                  "dropout",
                  "sharded_optimizer",
                  "overlapped_gradients",
                  "overlapped_parameters",
                  "overlapped_messages",
                  "overlapped_transfers",
                  "float8_gathers"});
  const Recipe recipe = recipe_of(row, device, node);
  MeasuredRow result = recipe_row(recipe, row["label"].string(), seconds(row["step"].duration()));
  if (result.seconds <= 0) row["step"].fail("expected a time above zero");
  result.family = row["model"].string();
  result.problem = concat(result.family, ", ", device_count(recipe), " devices, batch ",
                          std::int64_t{recipe.microbatches} * recipe.data * recipe.work.microbatch);
  if (row.contains("peak_memory")) {
    result.memory = row["peak_memory"].bytes();
    result.predicted_memory = peak_memory(recipe).total();
  }
  return result;
}

/// The constant's name as the table has it, which lives as long as the program.
std::string_view read_unknown(const Json& json) {
  std::vector<std::string> names;
  for (const KernelConstant& constant : kernel_constants) {
    if (constant.name == json.string()) return constant.name;
    names.emplace_back(constant.name);
  }
  json.fail(concat("no constant is named \"", json.string(), "\"; known: ", join_words(names)));
}

}  // namespace

bool is_recipes(const Json& json) {
  return json.contains("format") && json["format"].is_string() &&
         json["format"].string() == "stagecraft-measured/1";
}

std::vector<MeasuredSet> read_recipes(const Json& json) {
  json.allow_only({"format", "name", "device", "devices_per_node", "fit", "rows"});
  const std::string device = json["device"].string();
  MeasuredSet set{.name = json["name"].string(),
                  .source = "stagecraft-measured/1",
                  .device = device,
                  .unknowns = {usual_unknowns.begin(), usual_unknowns.end()},
                  .start = usual_constants(device)};
  if (json.contains("fit")) {
    set.unknowns.clear();
    for (const Json& name : json["fit"].elements()) set.unknowns.push_back(read_unknown(name));
  }
  const int node =
      json.contains("devices_per_node") ? json["devices_per_node"].small_integer(1, most) : 8;
  for (const Json& row : json["rows"].elements()) set.rows.push_back(row_of(row, device, node));
  return {std::move(set)};
}

}  // namespace stagecraft
