#include "planner/costs/stage_recompute.hpp"
#include "planner/interop/torch_names.hpp"
#include "planner/plan/layer_names.hpp"
#include "simulator/schedules/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/planner/interop/importers/questions.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Plan from_text(const std::string& text, const std::string& cluster = "2xh100") {
  return imported("torch", text, question_of(4, cluster, {.batch = 8}));
}

std::string torch_complaint(const std::string& text) {
  return message_of([&] { from_text(text); });
}

}  // namespace

TEST_CASE("torch: modules per stage, by the names of torchtitan, GPT-2 or Llama, or our own") {
  for (
      const std::string stages :
      {R"([["tok_embeddings", "layers.0", "layers.1"], ["layers.2", "layers.3", "norm", "output"]])",
       R"([["transformer.wte", "transformer.wpe", "transformer.h.0", "transformer.h.1"],
            ["transformer.h.2", "transformer.h.3", "transformer.ln_f", "lm_head"]])",
       R"([["model.embed_tokens", "model.layers.0", "model.layers.1"],
            ["model.layers.2", "model.layers.3", "model.norm", "lm_head"]])",
       R"([["embedding", "block.0", "block.1"], ["block.2", "block.3", "head"]])"}) {
    const Plan plan = from_text("{\"stages\": " + stages + ", \"microbatches\": 4}");
    CHECK(sizes_of(plan) == std::vector{3, 3});
    CHECK(plan.order.empty());
    CHECK(plan.batch.microbatch == 2);
    CHECK(plan.schedule.name == "1f1b");
    CHECK(plan.kernels.framework == Framework::torch);
  }
}

TEST_CASE("torch: an unknown schedule is named beside those of torch") {
  const std::string text = R"({"split_points": ["layers.2"], "schedule": "Schedule1F2B"})";
  const std::string words =
      "unknown torch schedule \"Schedule1F2B\"; known torch schedules: ScheduleGPipe Schedule1F1B ";
  CHECK(torch_complaint(text).find(words) != std::string::npos);
}

TEST_CASE("torch: split points are where stages begin") {
  const Plan plan = from_text(
      R"({"split_points": ["layers.1", "layers.2", "output"], "schedule": "ScheduleInterleaved1F1B",
          "pipeline_parallel_degree": 2, "microbatches": 4})",
      "4xh100");
  CHECK(sizes_of(plan) == std::vector{2, 1, 2, 1});
  CHECK(plan.schedule == ScheduleChoice{.name = "interleaved", .virtual_stages = 2});
  CHECK(plan.stages[2].devices == std::vector<std::vector<int>>{{0}, {1}});
  CHECK(plan.stages[3].devices == std::vector<std::vector<int>>{{2}, {3}});
}

TEST_CASE("torch: a V comes back to where it began") {
  const Plan plan = from_text(
      R"({"split_points": ["layers.1", "layers.2", "layers.3"], "schedule": "ScheduleZBVZeroBubble"})");
  CHECK(plan.schedule == ScheduleChoice{.name = "zb-v", .virtual_stages = 2});
  CHECK(plan.stages[3].devices == plan.stages[0].devices);
  CHECK(plan.stages[2].devices == plan.stages[1].devices);
}

// torchtitan/distributed/activation_checkpoint.py wraps the children of `layers`; of a rank's model
// parts it counts them one after another.
TEST_CASE("torch: checkpoints are around each block, or every second one of a rank") {
  const auto again = [](const std::string& words) {
    const Plan plan = from_text(
        R"({"split_points": ["layers.1", "layers.2", "output"], "microbatches": 4,
            "schedule": "ScheduleInterleaved1F1B", "pipeline_parallel_degree": 2, )" +
        words + "}");
    std::vector<std::string> stages;
    for (const Stage& stage : plan.stages) stages.push_back(recompute_in_words(stage));
    return stages;
  };
  using Words = std::vector<std::string>;
  // embedding and block 0, block 1, blocks 2 and 3, head
  CHECK(again(R"("activation_checkpoint": "none")") == Words(4, "none"));
  CHECK(again(R"("activation_checkpoint": "full")") ==
        Words{"1 of 2 layers", "1 of 1 layers", "2 of 2 layers", "none"});
  CHECK(again(R"("activation_checkpoint": "stage")") == Words(4, "full"));
  for (const std::string second : {"2", "\"2\""}) {
    // The first rank has blocks 0, 2 and 3, the second one block 1.
    CHECK(again(R"("activation_checkpoint": "selective", "selective_ac_option": )" + second) ==
          Words{"none", "none", "1 of 2 layers", "none"});
  }
  const Plan plan = from_text(R"({"split_points": ["layers.2"], "activation_checkpoint": "full"})");
  CHECK(plan.stages[0].recompute == Recompute::none);
  CHECK(plan.stages[0].again == std::vector{Recomputed::none, Recomputed::full, Recomputed::full});
  const auto refused = [](const std::string& words) {
    return torch_complaint(R"({"split_points": ["layers.2"], )" + words + "}");
  };
  CHECK_THAT(refused(R"("activation_checkpoint": "selective")"),
             ContainsSubstring("expected every how many of them"));
  CHECK_THAT(refused(R"("activation_checkpoint": "selective", "selective_ac_option": "op")"),
             ContainsSubstring("selective_ac_option: plans recompute whole blocks") &&
                 ContainsSubstring("found \"op\""));
  CHECK_THAT(refused(R"("activation_checkpoint": "full", "selective_ac_option": "2")"),
             ContainsSubstring("not of \"full\""));
  CHECK_THAT(refused(R"("activation_checkpoint": "memory_budget")"),
             ContainsSubstring("expected none, full, selective or stage"));
}

TEST_CASE("torch: every class is a schedule of ours, in any spelling") {
  for (const TorchScheduleName& row : torch_schedule_names) {
    CHECK(find_schedule(row.ours).name == row.ours);
    CHECK(find_torch_schedule(row.torch) == row.ours);
    CHECK(torch_class_of(row.ours) == row.torch);
  }
  CHECK(find_torch_schedule("interleaved1f1b") == "interleaved");
  CHECK(find_torch_schedule("1F1B") == "1f1b");
  CHECK(find_torch_schedule("vpp") == "interleaved");
  CHECK_FALSE(torch_class_of("zb-h1"));
}

TEST_CASE("torch: what is wrong is said at its place") {
  CHECK(torch_complaint(
            R"({"stages": [["embedding", "layers.0"], ["layers.2", "layers.3", "head"]]})") ==
        "plan.txt:1:12: stages: layer 2 (block.1) is in no stage");
  CHECK(
      torch_complaint(R"({"split_points": ["layers.4"]})") ==
      "plan.txt:1:19: split_points[0]: the model \"deep\" has no layer \"layers.4\"; its 6 layers "
      "are embedding to head");
  CHECK(
      torch_complaint(R"({"split_points": ["layers.2", "layers.1"]})").find("the model's order") !=
      std::string::npos);
  CHECK(torch_complaint(R"({"split_points": ["embedding"]})").find("where the first one does") !=
        std::string::npos);
  CHECK(torch_complaint(R"({"stages": [["embedding", "layers.0", "layers.1", "layers.2", "layers.3",
                                   "norm"], ["output"]]})")
            .find("which stage 0 has already") != std::string::npos);
  CHECK(
      torch_complaint(R"({"split_points": [], "schedule": "Schedule2F2B"})").find("did you mean") !=
      std::string::npos);
  CHECK(torch_complaint(R"({"split_points": ["layers.1"], "schedule": "Interleaved1F1B"})")
            .find("\"pipeline_parallel_degree\" is missing") != std::string::npos);
  CHECK(torch_complaint(R"({"split_points": ["layers.1"], "microbatches": 3})")
            .find("a batch of 8 samples is not 3 microbatches") != std::string::npos);
  CHECK(torch_complaint(R"({"split_point": ["layers.1"]})").find("split_points") !=
        std::string::npos);
}

TEST_CASE("a layer is found by each of its modules' names") {
  for (const char* const name : {"tiny-gpt", "tiny-llama"}) {
    const Model model = builtin_model(name);
    for (const ModuleNames names : {ModuleNames::torchtitan, ModuleNames::hugging_face}) {
      const auto modules = module_names(model, names);
      REQUIRE(modules.size() == model.layers.size());
      for (std::size_t layer = 0; layer < modules.size(); ++layer) {
        for (const std::string& module : modules[layer])
          CHECK(find_layer(model, module) == static_cast<int>(layer));
      }
    }
  }
  CHECK(exit_code_of(
            [] { module_names(builtin_model("bert-large"), ModuleNames::hugging_face); }) == 3);
}
