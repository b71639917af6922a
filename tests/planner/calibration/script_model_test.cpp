// The model that a launch script of Megatron-LM describes.

#include "planner/calibration/script_model.hpp"

#include "planner/interop/exporters.hpp"
#include "profiles/cluster.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// All of the model on one device.
LoadedPlan plan_of(const std::string& name) {
  const Model model = builtin_model(name);
  Plan plan;
  plan.model = name;
  plan.cluster = "1xh200";
  plan.precision = Precision::bfloat16;
  plan.optimizer.kind = OptimizerKind::adamw;
  plan.schedule = {.name = "1f1b", .virtual_stages = 1};
  plan.batch = {1, 1, 1, model.sequence};
  Stage stage;
  stage.layers = {0, static_cast<int>(model.layers.size())};
  stage.devices = {{0}};
  plan.stages = {stage};
  return {.plan = plan,
          .profile = {.model = model, .entries = {}},
          .cluster = parse_cluster("1xh200"),
          .path = "plan.json",
          .hash = {}};
}

}  // namespace

TEST_CASE("a launch that was written for a built-in model describes that model") {
  int described = 0;
  for (const std::string& name : builtin_models()) {
    const LoadedPlan loaded = plan_of(name);
    const Model& model = loaded.profile.model;
    if (!model.transformer || !reasons_against_megatron(loaded.plan, model, loaded.cluster).empty())
      continue;
    INFO(name);
    const auto script = model_of_script(export_megatron(loaded), "train.sh", {});
    REQUIRE(script);
    CHECK(script->builtin == name);
    ++described;
  }
  CHECK(described >= 15);
}

TEST_CASE("a launch of a model of one's own describes its blocks, their widths and its words") {
  const std::string flags =
      "torchrun pretrain_gpt.py --num-layers 3 --hidden-size 64 --num-attention-heads 4 "
      "--ffn-hidden-size 96 --swiglu --normalization RMSNorm --position-embedding-type rope "
      "--disable-bias-linear --untie-embeddings-and-output-weights --seq-length 128 "
      "--tensor-model-parallel-size 2 --vocab-size 1000\n";
  const auto script = model_of_script(flags, "runs/mine.sh", {});
  REQUIRE(script);
  CHECK(script->builtin == "");
  CHECK(script->blocks == 3);
  CHECK(script->has_vocabulary);
  CHECK(script->model.name == "mine");
  CHECK(script->model.sequence == 128);
  // A block: attention's four products, the three of a gated feed-forward, two norms.
  const std::int64_t block = 4 * 64 * 64 + 3 * 64 * 96 + 2 * 64;
  CHECK(parameters(script->model) == 3 * block + 2 * 1000 * 64 + 64);
  // Megatron-LM's own words unless it is told other ones.
  const auto other = model_of_script(flags.substr(0, flags.find(" --vocab-size")), "mine.sh", {});
  REQUIRE(other);
  CHECK_FALSE(other->has_vocabulary);
  CHECK(parameters(other->model) == 3 * block + 2 * 50257 * 64 + 64);
}

TEST_CASE("a launch that leaves its model open describes none") {
  CHECK_FALSE(model_of_script("pretrain_gpt.py --num-layers 3 --hidden-size 64\n", "a.sh", {}));
  CHECK_FALSE(model_of_script(
      "pretrain_gpt.py --num-layers $LAYERS --hidden-size 64 --num-attention-heads 4\n", "a.sh",
      {}));
  const auto given = model_of_script(
      "pretrain_gpt.py --num-layers $LAYERS --hidden-size 64 --num-attention-heads 4\n", "a.sh",
      {{"LAYERS", "5"}});
  REQUIRE(given);
  CHECK(given->blocks == 5);
  CHECK_THAT(message_of([] {
               model_of_script(
                   "pretrain_gpt.py --num-layers 3 --hidden-size wide --num-attention-heads 4\n",
                   "a.sh", {});
             }),
             Catch::StartsWith("a.sh:1:") &&
                 Catch::EndsWith("hidden-size: expected a whole number, found \"wide\""));
}
