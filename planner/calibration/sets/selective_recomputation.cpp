// Table 5 and Figure 7 of Korthikanti et al. 2022 (arXiv 2205.05198): GPT models of their Table 3
// on A100-80GB, with full recomputation, and with sequence parallelism and selective recomputation.

#include "planner/calibration/measured_sets.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::array recomputation_unknowns{"product_rate"};

/// A row of the paper's Table 3.
struct PaperModel {
  std::string_view name;
  int hidden, heads, blocks, pipeline, virtual_stages, batch, microbatch;
};
constexpr std::array paper_models{PaperModel{"22B", 6144, 64, 48, 1, 1, 4, 4},
                                  PaperModel{"175B", 12288, 96, 96, 8, 3, 64, 1},
                                  PaperModel{"530B", 20480, 128, 105, 35, 3, 280, 1},
                                  PaperModel{"1T", 25600, 160, 128, 64, 1, 512, 1}};

Recipe recipe_of(const PaperModel& model) {
  Recipe recipe;
  recipe.transformer = {.hidden = model.hidden,
                        .heads = model.heads,
                        .key_value_heads = model.heads,
                        .head_width = model.hidden / model.heads,
                        .feed_forward = std::int64_t{4} * model.hidden,
                        .vocabulary = 51200,
                        .positions = 2048};
  recipe.blocks = model.blocks;
  recipe.pipeline = model.pipeline;
  recipe.virtual_stages = model.virtual_stages;
  recipe.microbatches = model.batch / model.microbatch;
  recipe.scatter_gather = true;
  recipe.work = {.microbatch = model.microbatch,
                 .sequence = 2048,
                 .tensor_parallel = 8,
                 .precision = Precision::float16,
                 .fused_attention = false,
                 .dropout = true,
                 .gradient_bytes = 2};
  return recipe;
}

struct Technique {
  std::string_view name;
  Recomputed recompute;
  bool sequence_parallel;
};
constexpr std::array techniques{
    Technique{"none", Recomputed::none, false}, Technique{"seq", Recomputed::none, true},
    Technique{"sel", Recomputed::selective, false},
    Technique{"seqsel", Recomputed::selective, true}, Technique{"full", Recomputed::full, false}};

Recipe with(Recipe recipe, std::string_view technique, const Json& place) {
  for (const Technique& known : techniques) {
    if (known.name != technique) continue;
    recipe.work.recompute = known.recompute;
    recipe.work.sequence_parallel = known.sequence_parallel;
    return recipe;
  }
  place.fail(concat("unknown technique \"", technique, "\""));
}

const PaperModel& model_named(std::string_view name, const Json& place) {
  for (const PaperModel& model : paper_models) {
    if (model.name == name) return model;
  }
  place.fail(concat("the paper has no model \"", name, "\""));
}

/// Something counted, not timed: published and computed, no constant enters.
MeasuredRow counted_row(std::string label, double published, double computed) {
  MeasuredRow row;
  row.label = std::move(label);
  row.family = row.problem = row.label;
  row.seconds = published;
  row.predict = [computed](const KernelConstants&, double) { return computed; };
  return row;
}

double activations(const Recipe& recipe) {
  return static_cast<double>(first_stage_activations(recipe));
}

/// Figure 7: percent of what is kept without recomputation. Figure 1: GiB.
MeasuredSet activation_set(const Json& json) {
  MeasuredSet set{.name = "selective-recomputation-activations",
                  .source = json["paper"].string(),
                  .device = "a100-80gb",
                  .unit = "% or GiB"};
  set.assumptions = {"figures 1 and 7: the first stage; nothing is fitted"};
  const auto recipe_named = [&](const std::string& name, const Json& place) {
    return recipe_of(model_named(name, place));
  };
  const Json shares = json["fig7_activation_pct"];
  for (const std::string& name : shares.names()) {
    const Recipe recipe = recipe_named(name, shares[name]);
    for (const std::string& technique : shares[name].names()) {
      const Json value = shares[name][technique];
      const double share = activations(with(recipe, technique, value)) / activations(recipe);
      set.rows.push_back(counted_row(concat("figure 7: ", name, " ", technique, ", %"),
                                     value.number(), 100 * share));
    }
  }
  constexpr double gibi = 1024.0 * 1024 * 1024;
  const Json sizes = json["fig1_GiB"];
  for (const std::string& name : sizes.names()) {
    const Recipe recipe = recipe_named(name, sizes[name]);
    for (const std::string technique : {"none", "seqsel"}) {
      const Json value = sizes[name]["act_" + technique];
      set.rows.push_back(counted_row(concat("figure 1: ", name, " ", technique, ", GiB"),
                                     value.number(),
                                     activations(with(recipe, technique, value)) / gibi));
    }
  }
  return set;
}

}  // namespace

bool is_selective_recomputation(const Json& json) {
  return json.contains("table5_iteration_s") && json["table5_iteration_s"].is_object();
}

std::vector<MeasuredSet> read_selective_recomputation(const Json& json) {
  MeasuredSet set{.name = "selective-recomputation",
                  .source = json["paper"].string(),
                  .device = "a100-80gb",
                  .unknowns = {recomputation_unknowns.begin(), recomputation_unknowns.end()},
                  .start = usual_constants("a100-80gb")};
  const Json times = json["table5_iteration_s"];
  for (const std::string& name : times.names()) {
    const Recipe recipe = recipe_of(model_named(name, times[name]));
    for (const std::string& technique : times[name].names()) {
      const Json value = times[name][technique];
      MeasuredRow row = recipe_row(with(recipe, technique, value),
                                   concat("table 5: ", name, " ", technique), value.number());
      row.family = row.problem = name;
      set.rows.push_back(std::move(row));
    }
  }
  if (!set.rows.empty()) set.fit_on = set.rows.front().label;
  set.assumptions = {"the paper's Table 3: eight tensor-parallel devices, one replica"};
  std::vector<MeasuredSet> sets{std::move(set)};
  if (json.contains("fig7_activation_pct") && json.contains("fig1_GiB"))
    sets.push_back(activation_set(json));
  return sets;
}

}  // namespace stagecraft
