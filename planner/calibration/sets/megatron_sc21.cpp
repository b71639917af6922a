// Table 1 and Figures 11 and 12 of Narayanan et al. 2021 (Megatron-LM, SC21), calibrated on the row
// of 39.1 billion parameters. Rates become times by the paper's own count of operations (equation
// 3). The table leaves microbatch and interleaving open: the fastest that fits in memory is taken.

#include <algorithm>

#include "planner/calibration/measured_sets.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::array sc21_unknowns{"product_rate"};
constexpr double tera = 1e12;

Recipe base(std::int64_t hidden, std::int64_t heads, int blocks, const Json& hardware) {
  Recipe recipe;
  recipe.transformer = {.hidden = hidden,
                        .heads = heads,
                        .key_value_heads = heads,
                        .head_width = hidden / heads,
                        .feed_forward = 4 * hidden,
                        .vocabulary = hardware["vocab"].integer(1, 1 << 28),
                        .positions = hardware["seq"].integer(1, 1 << 28)};
  recipe.blocks = blocks;
  recipe.scatter_gather = true;
  recipe.work = {.sequence = recipe.transformer.positions,
                 .precision = Precision::float16,
                 .recompute = Recomputed::full,
                 .fused_attention = false,
                 .dropout = true,
                 .gradient_bytes = 2};
  return recipe;
}

/// Equation 3: 96 B s l h^2 (1 + s / 6h + V / 16 l h), with the forward pass done twice.
double operations(const Recipe& recipe, double batch) {
  const auto sequence = static_cast<double>(recipe.work.sequence);
  const auto hidden = static_cast<double>(recipe.transformer.hidden);
  const auto vocabulary = static_cast<double>(recipe.transformer.vocabulary);
  const double blocks = recipe.blocks;
  return 96 * batch * sequence * blocks * hidden * hidden *
         (1 + sequence / (6 * hidden) + vocabulary / (16 * blocks * hidden));
}

/// The row of a rate per device: a choice among recipes.
MeasuredRow rated_row(std::vector<Recipe> choices, std::string label, double batch, double tflops) {
  const Recipe& first = choices.front();
  MeasuredRow row;
  row.label = std::move(label);
  row.shape = shape_of(first);
  row.seconds = operations(first, batch) / (tflops * tera * device_count(first));
  row.predict = [choices](const KernelConstants& constants, double factor) {
    double best = step_seconds(choices.front(), constants, factor).step;
    for (const Recipe& recipe : choices)
      best = std::min(best, step_seconds(recipe, constants, factor).step);
    return best;
  };
  return row;
}

bool fits(const Recipe& recipe) {
  constexpr double usable = 0.95 * 80 * 1024 * 1024 * 1024;
  return static_cast<double>(peak_memory(recipe).total()) < usable;
}

/// Microbatches that divide a replica's share, and interleavings that divide its blocks.
std::vector<Recipe> choices_of(const Recipe& recipe, int batch, int most_virtual) {
  std::vector<Recipe> choices;
  const int share = batch / recipe.data;
  for (int microbatch = 1; microbatch <= std::min(16, share); microbatch *= 2) {
    for (int interleaved = 1; interleaved <= most_virtual; ++interleaved) {
      Recipe choice = recipe;
      choice.work.microbatch = microbatch;
      choice.microbatches = share / microbatch;
      choice.virtual_stages = interleaved;
      const bool divides = recipe.blocks % (recipe.pipeline * interleaved) == 0 &&
                           share % microbatch == 0 &&
                           (interleaved == 1 || choice.microbatches % recipe.pipeline == 0);
      if (divides && fits(choice)) choices.push_back(choice);
    }
  }
  if (choices.empty()) fail("no microbatch of ", share, " samples fits in memory");
  return choices;
}

MeasuredRow table_row(const Json& row, const Json& hardware) {
  Recipe recipe = base(row["hidden"].integer(1, 1 << 20), row["heads"].integer(1, 1 << 16),
                       row["layers"].small_integer(1, 100'000), hardware);
  recipe.work.tensor_parallel = row["tp"].small_integer(1, 1024);
  recipe.pipeline = row["pp"].small_integer(1, 1024);
  const int devices = row["gpus"].small_integer(1, 1'000'000);
  recipe.data = std::max(1, devices / (recipe.work.tensor_parallel * recipe.pipeline));
  const int batch = row["batch"].small_integer(1, 1'000'000);
  const double billions = row["params_b"].number();
  const int most_virtual = recipe.pipeline > 1 ? recipe.blocks / recipe.pipeline : 1;
  MeasuredRow result = rated_row(choices_of(recipe, batch, most_virtual),
                                 concat("table 1: ", billions, " B parameters, ", devices, " GPUs"),
                                 batch, row["tflops_per_gpu"].number());
  result.family = result.problem = result.label;
  return result;
}

/// The number in "p8" or "b16", which `place` is called.
int number_of_name(const Json& place, const std::string& name) {
  const bool is_number = name.size() > 1 && name.size() < 7 &&
                         name.find_first_not_of("0123456789", 1) == std::string::npos;
  if (!is_number)
    place.fail(concat("expected a letter and a number as its name, found \"", name, "\""));
  return std::stoi(name.substr(1));
}

/// Three blocks of width 20480 for each stage, microbatches of one sample.
void add_weak_scaling(MeasuredSet& set, const Json& figure, const Json& hardware) {
  for (const std::string& batch : figure.names()) {
    if (!figure[batch].is_object()) continue;
    for (const std::string& stages : figure[batch].names()) {
      const int pipeline = number_of_name(figure[batch][stages], stages);
      Recipe recipe = base(20480, 128, 3 * pipeline, hardware);
      recipe.work.tensor_parallel = 8;
      recipe.pipeline = pipeline;
      recipe.microbatches = number_of_name(figure[batch], batch);
      MeasuredRow row =
          rated_row({recipe}, concat("figure 11: ", pipeline, " stages, batch ", batch.substr(1)),
                    recipe.microbatches, figure[batch][stages].number());
      row.family = "figure 11";
      row.problem = row.label;
      set.rows.push_back(std::move(row));
    }
  }
}

/// GPT-3 on 8 x 12 devices, microbatches of one sample; the interleaving is not given.
void add_interleaving(MeasuredSet& set, const Json& figure, const Json& hardware) {
  Recipe recipe = base(12288, 96, 96, hardware);
  recipe.work.tensor_parallel = 8;
  recipe.pipeline = 12;
  for (std::size_t i = 0; i < figure["batch"].elements().size(); ++i) {
    recipe.microbatches = figure["batch"][i].small_integer(1, 1'000'000);
    for (const bool interleaved : {false, true}) {
      std::vector<Recipe> choices(1, recipe);
      if (interleaved) {
        choices.front().virtual_stages = 4;
      }
      const std::string_view name = interleaved ? "interleaved" : "non_interleaved";
      MeasuredRow row = rated_row(choices,
                                  concat("figure 12: batch ", recipe.microbatches,
                                         interleaved ? ", interleaved" : ", not interleaved"),
                                  recipe.microbatches, figure[name][i].number());
      row.family = "figure 12";
      row.problem = concat("figure 12, batch ", recipe.microbatches);
      set.rows.push_back(std::move(row));
    }
  }
}

}  // namespace

bool is_megatron_sc21(const Json& json) {
  return json.contains("table1") && json.contains("hardware") && json["table1"].is_array();
}

std::vector<MeasuredSet> read_megatron_sc21(const Json& json) {
  MeasuredSet set{.name = "megatron-sc21",
                  .source = json["paper"].string(),
                  .device = "a100-80gb",
                  .unknowns = {sc21_unknowns.begin(), sc21_unknowns.end()},
                  .start = usual_constants("a100-80gb")};
  const Json hardware = json["hardware"];
  for (const Json& row : json["table1"].elements()) {
    set.rows.push_back(table_row(row, hardware));
    if (row["params_b"].number() == 39.1) set.fit_on = set.rows.back().label;
  }
  if (json.contains("figures_approx")) {
    const Json figures = json["figures_approx"];
    if (figures.contains("fig11_weak_scaling"))
      add_weak_scaling(set, figures["fig11_weak_scaling"], hardware);
    if (figures.contains("fig12_interleaved"))
      add_interleaving(set, figures["fig12_interleaved"], hardware);
  }
  set.assumptions = {
      "table 1: the fastest microbatch and interleaving that fit 80 GB; figures: microbatches of "
      "one sample; values of figures are readings"};
  return {std::move(set)};
}

}  // namespace stagecraft
