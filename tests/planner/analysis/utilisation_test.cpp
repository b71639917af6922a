#include "planner/analysis/utilisation.hpp"

#include "profiles/operations.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// All layers on `devices` peers, each recomputing what is said of its kind.
Plan plan_of(const Model& model, int devices, Recomputed of_blocks = Recomputed::none) {
  Plan plan;
  plan.precision = Precision::bfloat16;
  plan.batch.sequence = model.sequence;
  Stage stage{.layers = {0, static_cast<int>(model.layers.size())}, .devices = {{}}};
  for (int device = 0; device < devices; ++device) stage.devices.front().push_back(device);
  for (const Layer& layer : model.layers) {
    const bool is_block = layer.kind != LayerKind::embedding && layer.kind != LayerKind::head;
    stage.again.push_back(is_block ? of_blocks : Recomputed::none);
  }
  plan.stages = {stage};
  return plan;
}

Prediction at_rate(double samples_per_second) {
  Prediction prediction;
  prediction.samples_per_second = samples_per_second;
  return prediction;
}

/// FLOPs of a sample, needed and with what is done again.
Utilisation flops(const Plan& plan, const Model& model) {
  const auto found = utilisation_of(plan, model, parse_cluster("8xa100"), at_rate(1)).value();
  return {.model = found.model * found.peak, .hardware = found.hardware * found.peak};
}

}  // namespace

TEST_CASE("a GPT needs the FLOPs that Narayanan et al. 2021 count, recomputed a third more") {
  const Model model = builtin_model("gpt3-175b");
  const auto h = static_cast<double>(model.transformer->hidden);
  const auto v = static_cast<double>(model.transformer->vocabulary);
  const auto s = static_cast<double>(model.sequence);
  const auto l = static_cast<double>(model.layers.size() - 2);
  const Utilisation recomputed = flops(plan_of(model, 8, Recomputed::full), model);
  CHECK(recomputed.hardware ==
        Approx(96 * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h))).epsilon(1e-9));
  CHECK(recomputed.model ==
        Approx(72 * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h))).epsilon(1e-9));
  // Scores and weighted sum, each 2 s s h.
  const Utilisation selective = flops(plan_of(model, 8, Recomputed::selective), model);
  CHECK(selective.hardware - selective.model == Approx(l * 4 * s * s * h).epsilon(1e-6));
  const Utilisation plain = flops(plan_of(model, 8), model);
  CHECK(plain.model == Approx(selective.model));
  CHECK(plain.hardware == Approx(plain.model));
  Plan whole = plan_of(model, 8);
  whole.stages.front().again.clear();
  whole.stages.front().recompute = Recompute::full;
  CHECK(flops(whole, model).hardware == Approx(plain.model * 4 / 3));
}

TEST_CASE("utilisation is what the rate needs of the dense peaks of all devices in use") {
  const Model model = builtin_model("gpt2-124m");
  const Cluster cluster = parse_cluster("8xa100");
  const Plan plan = plan_of(model, 4);
  const double needed = flops(plan, model).model;
  const auto found = utilisation_of(plan, model, cluster, at_rate(100)).value();
  CHECK(found.peak == Approx(4 * 312e12));
  CHECK(found.model == Approx(100 * needed / (4 * 312e12)));
  Plan prompts = plan;
  prompts.schedule.name = "inference";
  // Logits of the last of 1,024 tokens alone.
  const double of_other_logits = 1023 * 2.0 * 768 * 50257;
  CHECK(utilisation_of(prompts, model, cluster, at_rate(100))->model ==
        Approx(100 * (needed / 3 - of_other_logits) / (4 * 312e12)));
  Plan shorter = plan;
  shorter.batch.sequence /= 2;
  CHECK(flops(shorter, model).model < needed / 2);
}

TEST_CASE("latent attention does its projections again under selective recomputation") {
  const Model model = builtin_model("deepseek-v3");
  double again = 0;
  for (const Layer& layer : model.layers) {
    const LayerOperations work =
        layer_operations(*model.transformer, layer.kind, {.sequence = model.sequence});
    for (const Operation& operation : work.operations) {
      if (operation.rebuilds && operation.pass == Pass::forward) again += operation.flops;
    }
  }
  const Utilisation selective = flops(plan_of(model, 8, Recomputed::selective), model);
  CHECK(selective.hardware - selective.model == Approx(again).epsilon(1e-6));
}

TEST_CASE("no utilisation is told where FLOPs or peaks are not known") {
  const Model model = builtin_model("gpt2-124m");
  Plan plan = plan_of(model, 4);
  CHECK(!utilisation_of(plan, model, parse_cluster("4xgeneric"), at_rate(1)));
  plan.precision = Precision::float8;  // an A100 has no such units
  CHECK(!utilisation_of(plan, model, parse_cluster("4xa100"), at_rate(1)));
  const Model opaque = profile_of({layer_cost(Duration{1}, Duration{2})}).model;
  CHECK(!utilisation_of(plan_of(opaque, 4), opaque, parse_cluster("4xa100"), at_rate(1)));
  CHECK(utilisation_of(plan_of(builtin_model("vgg16"), 4), builtin_model("vgg16"),
                       parse_cluster("4xa100"), at_rate(1)));
}
