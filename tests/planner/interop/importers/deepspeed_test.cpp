#include "planner/costs/stage_recompute.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/planner/interop/importers/questions.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

std::string deepspeed_complaint(const std::string& text, PlanOptions options = {.batch = 8}) {
  return message_of([&] { imported("deepspeed", text, question_of(3, "4xh100", options)); });
}

}  // namespace

TEST_CASE("DeepSpeed: bare parts are stages, on as many replicas as there are devices for") {
  const Plan plan =
      imported("deepspeed", " [0, 2, 5]", question_of(3, "4xh100", {.batch = 16, .microbatch = 4}));
  CHECK(sizes_of(plan) == std::vector{2, 3});
  CHECK(plan.schedule == ScheduleChoice{.name = "1f1b"});
  CHECK(plan.stages[1].devices == std::vector<std::vector<int>>{{2}, {3}});
  CHECK(plan.batch.microbatches == 4);
}

TEST_CASE("DeepSpeed: parts with a ds_config") {
  const Plan plan = imported("deepspeed",
                             R"({"parts": [0, 2, 5], "model_parallel_size": 2,
      "activation_checkpoint_interval": 3, "steps_per_print": 10,
      "ds_config": {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 6,
                    "zero_optimization": {"stage": 1}, "bf16": {"enabled": true},
                    "optimizer": {"type": "Adam", "params": {"lr": 1e-3}}}})",
                             question_of(3, "8xh100"));
  CHECK(plan.stages[1].devices == std::vector<std::vector<int>>{{4, 5}, {6, 7}});
  CHECK(plan.stages[1].recompute == Recompute::full);
  CHECK(plan.batch == Batch{.global = 24, .microbatch = 4, .microbatches = 6, .sequence = 8});
  CHECK(plan.optimizer == OptimizerChoice{OptimizerKind::adamw, Sharding::zero1});
  CHECK(plan.precision == Precision::bfloat16);
  CHECK(plan.kernels.framework == Framework::torch);
}

TEST_CASE("DeepSpeed: checkpoints of every layer, of so many at a time, of whole stages, or none") {
  const auto again = [](int interval) {
    const Plan plan = imported(
        "deepspeed",
        concat(R"({"parts": [0, 2, 5], "activation_checkpoint_interval": )", interval, "}"),
        question_of(3, "2xh100", {.batch = 8}));
    return std::vector{recompute_in_words(plan.stages[0]), recompute_in_words(plan.stages[1])};
  };
  using Words = std::vector<std::string>;
  CHECK(again(0) == Words{"none", "none"});
  CHECK(again(1) == Words{"2 of 2 layers", "3 of 3 layers"});
  CHECK(again(2) == Words{"2 of 2 layers in 1 run", "3 of 3 layers in 2 runs"});
  CHECK(again(3) == Words{"full", "full"});
}

TEST_CASE("DeepSpeed: its balanced partition of five equal layers is taken, the old one refused") {
  const auto of_five = [](const std::string& parts) {
    return imported("deepspeed", parts, question_of(3, "4xh100", {.batch = 8, .microbatch = 1}));
  };
  CHECK(sizes_of(of_five("[0, 2, 3, 4, 5]")) == std::vector{2, 1, 1, 1});
  CHECK(message_of([&] { of_five("[0, 2, 4, 5, 5]"); }) ==
        "plan.txt:1:14: [4]: stage 3 has no layers; the first and the last stage of a plan have at "
        "least one");
  CHECK(sizes_of(of_five("[0, 2, 2, 4, 5]")) == std::vector{2, 0, 2, 1});
}

TEST_CASE("DeepSpeed: what is wrong is said at its place") {
  CHECK(deepspeed_complaint("[0, 2, 6]") ==
        "plan.txt:1:8: [2]: the parts have 6 layers, but the model has 5");
  CHECK(deepspeed_complaint("[1, 5]").find("expected the first layer of each stage, 0 first") !=
        std::string::npos);
  CHECK(deepspeed_complaint("[0, 3, 2, 5]").find("expected at least 3, found 2") !=
        std::string::npos);
  CHECK(deepspeed_complaint("[0, 1, 2, 5]") ==
        "plan.txt: DeepSpeed needs a multiple of 3 devices for 3 pipeline ranks of 1 "
        "tensor-parallel peer, not 4");
  CHECK(deepspeed_complaint(R"({"parts": [0, 5], "zero_optimization": {"stage": 3}})")
            .find("DeepSpeed refuses ZeRO-3 with pipelines") != std::string::npos);
  CHECK(deepspeed_complaint(R"({"parts": [0, 5], "activation_checkpoint_interval": -1})")
            .find("expected an integer from 0") != std::string::npos);
  CHECK(deepspeed_complaint(
            R"({"parts": [0, 5], "fp16": {"enabled": true}, "bf16": {"enabled": true}})")
            .find("DeepSpeed refuses fp16 and bf16 at once") != std::string::npos);
  CHECK(deepspeed_complaint(R"({"parts": [0, 5], "gradient_accumulation_steps": 3,
                      "train_micro_batch_size_per_gpu": 1})")
            .find("DeepSpeed refuses: a batch of 8 is not 3 steps") != std::string::npos);
  CHECK(deepspeed_complaint(R"({"parts": [0, 5], "optimizer": {"type": "Lamb"}})")
            .find("expected Adam, AdamW or SGD") != std::string::npos);
  CHECK(deepspeed_complaint("[0, 5]", {}) ==
        "plan.txt: the file does not say how many samples a step takes; add --batch N");
  CHECK(
      deepspeed_complaint("[0, 5]", {.batch = 8, .replicas = {1}}).find("leave --replicas away") !=
      std::string::npos);
}

TEST_CASE("DeepSpeed: a ds_config without parts trains the model whole on each device") {
  const ImportedPlan whole =
      import_plan(plan_importer("deepspeed"),
                  R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3,
                      "zero_optimization": {"stage": 1, "reduce_bucket_size": 5e8}})",
                  "ds_config.json", question_of(3, "4xh100"));
  CHECK(sizes_of(whole.plan) == std::vector{5});
  CHECK(replicas_of_stages(whole.plan) == std::vector{4});
  CHECK(whole.plan.batch == Batch{.global = 24, .microbatch = 8, .microbatches = 3, .sequence = 8});
  CHECK(whole.plan.optimizer.sharding == Sharding::zero1);
  // Nothing says bf16.
  CHECK(whole.plan.precision == Precision::float32);
  REQUIRE(whole.notes.size() == 2);
  CHECK_THAT(whole.notes[0], ContainsSubstring("DeepSpeed trains in fp32"));
  CHECK_THAT(whole.notes[1], ContainsSubstring("without \"parts\" there is no pipeline"));
}

TEST_CASE("DeepSpeed: what a trainer fills in, the command line says") {
  const std::string config = R"({"train_batch_size": "auto", "bf16": {"enabled": "auto"},
      "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
      "zero_optimization": {"stage": 2}})";
  const Plan plan =
      imported("deepspeed", config, question_of(3, "4xh100", {.batch = 16, .microbatch = 8}));
  CHECK(plan.batch.microbatches == 2);
  CHECK(plan.precision == Precision::bfloat16);
  const auto open = plan_importer("deepspeed").open_flag;
  CHECK(open(config, "ds_config.json") == "--batch N");
  CHECK(open(R"({"train_batch_size": 8})", "ds_config.json").empty());
  CHECK_FALSE(open(R"({"train_micro_batch_size_per_gpu": 8})", "ds_config.json").empty());
}
