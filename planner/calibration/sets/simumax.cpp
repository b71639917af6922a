// SimuMax's results on eight B200 (Megatron-LM with Transformer Engine): the case's name says how a
// few layers of a model were cut, "llama3_70b_l12_tp1_pp2_dp4_mbc4_cef": 12 layers, 4 microbatches
// of one sequence of 4096 tokens, fused loss ("cef"). Only what was measured is read; their own
// predictions stay unread.

#include <cctype>

#include "planner/calibration/measured_sets.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr std::array simumax_unknowns{"product_rate", "attention_rate", "memory_rate",
                                      "inside_rate", "step_seconds"};

/// The number behind `key` in one of the words of a case, 1 if there is none.
std::int64_t number_behind(const Json& row, std::string_view key, std::int64_t otherwise = 1) {
  for (const std::string& word : split(row["case"].string(), '_')) {
    if (!word.starts_with(key) || word.size() == key.size()) continue;
    const std::string digits = word.substr(key.size());
    if (digits.find_first_not_of("0123456789") == std::string::npos && digits.size() < 9)
      return std::stoll(digits);
  }
  return otherwise;
}

struct ModelName {
  std::string_view theirs, ours;
};
constexpr std::array models{
    ModelName{"llama3-8b", "llama3-8b"},     ModelName{"llama3-70b", "llama3-70b"},
    ModelName{"llama3-405b", "llama3-405b"}, ModelName{"mixtral-8x7b", "mixtral-8x7b"},
    ModelName{"deepseekv2", "deepseek-v2"},  ModelName{"deepseekv3", "deepseek-v3"}};

/// The model with so few layers; of DeepSeek's only the first is dense then.
Transformer transformer_of(const Json& row) {
  const std::string name = row["model"].string();
  for (const ModelName& model : models) {
    if (model.theirs != name) continue;
    Transformer transformer = *builtin_model(model.ours).transformer;
    transformer.prediction_modules = 0;
    if (transformer.latent) transformer.experts->dense_blocks = 1;
    return transformer;
  }
  row["model"].fail(concat("no built-in model is known as \"", name, "\" there"));
}

Recipe simumax_recipe(const Json& row) {
  Recipe recipe;
  recipe.transformer = transformer_of(row);
  recipe.device = "b200";
  recipe.blocks = row["layer_num"].small_integer(1, 100'000);
  recipe.microbatches = row["mbc"].small_integer(1, 1'000'000);
  recipe.pipeline = static_cast<int>(number_behind(row, "pp"));
  recipe.virtual_stages = row.contains("vp_size") ? row["vp_size"].small_integer(1, 1000) : 1;
  recipe.data = static_cast<int>(number_behind(row, "dp"));
  recipe.sharded_optimizer = true;
  recipe.weight_stubs = true;
  recipe.workspace =
      product_workspace(recipe.device, {.grouped = recipe.transformer.experts.has_value()});
  recipe.work.microbatch = number_behind(row, "mbs");
  recipe.work.sequence = number_behind(row, "seq", 4096);
  recipe.work.tensor_parallel = static_cast<int>(number_behind(row, "tp"));
  recipe.work.context_parallel = static_cast<int>(number_behind(row, "cp"));
  recipe.work.expert_parallel = static_cast<int>(number_behind(row, "ep"));
  recipe.work.expert_tensor_parallel = 1;
  recipe.work.sequence_parallel = recipe.work.tensor_parallel > 1;
  if (row["case"].string().ends_with("_cef")) recipe.work.fused_loss = FusedLoss::te;
  return recipe;
}

MeasuredRow row_of(const Json& row) {
  const Recipe recipe = simumax_recipe(row);
  MeasuredRow result = recipe_row(recipe, row["case"].string(), row["real_ms"].number() / 1000);
  result.family = row["model"].string();
  result.kind = recipe.transformer.experts ? "experts" : "dense";
  result.problem =
      concat(row["model"].string(), ", ", recipe.blocks, " layers, ",
             recipe.microbatches * recipe.data, " sequences of ", recipe.work.sequence);
  if (row.contains("real_alloc_gib")) {
    result.memory = static_cast<Bytes>(row["real_alloc_gib"].number() * 1024 * 1024 * 1024);
    result.predicted_memory = peak_memory(recipe).total();
  }
  return result;
}

}  // namespace

bool is_simumax(const Json& json) {
  if (!json.contains("rows") || !json["rows"].is_array()) return false;
  const std::vector<Json> rows = json["rows"].elements();
  return !rows.empty() && rows[0].is_object() && rows[0].contains("real_ms") &&
         rows[0].contains("mbc");
}

std::vector<MeasuredSet> read_simumax(const Json& json) {
  MeasuredSet set{.name = "simumax-b200",
                  .source = "MooreThreads/SimuMax, results on B200",
                  .device = "b200",
                  .unknowns = {simumax_unknowns.begin(), simumax_unknowns.end()},
                  .start = usual_constants("b200")};
  set.assumptions = {
      "microbatches of one sequence, of 4096 tokens unless the case says so; ZeRO-1; of DeepSeek's "
      "layers the first is dense"};
  for (const Json& row : json["rows"].elements()) {
    if (row.contains("real_ms") && row["real_ms"].is_number()) {
      set.rows.push_back(row_of(row));
    } else {
      set.left_out.push_back(row["case"].string() + ": nothing was measured");
    }
  }
  return {std::move(set)};
}

}  // namespace stagecraft
