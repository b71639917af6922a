#include "planner/costs/stage_recompute.hpp"
#include "profiles/importers.hpp"
#include "tests/catch.hpp"
#include "tests/planner/interop/importers/questions.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

const std::string table =
    "op_name,forward-compute,backward-compute,input_size,output_size,weights,activations,"
    "fwd_reserved,bwd_reserved\n"
    "conv1,1000,2000,1,2,1,2,0,0\nbn1,100,200,2,2,0.5,2,0,0\n"
    "block-0-0-conv1,1000,2000,2,2,1,2,0,0\nblock-0-0-conv2,1000,2000,2,2,1,2,0,0\n"
    "block-0-1-conv1,1000,2000,2,2,1,2,0,0\nblock-0-1-conv2,1000,2000,2,2,1,2,0,0\n"
    "fc,500,1000,2,0,1,1,0,0\n";

const std::string aceso_plan_text = R"({"model_name": "resnet", "model_size": "2B", "num_layers": 1,
  "global_batch_size": 8, "micro_batch_size": 2, "num_stages": 2, "num_gpus": [1, 2],
  "checkpoint_activations": [true, true], "resharding_stages": [false, false],
  "num_ops_in_each_stage": [6, 1],
  "model_parallel_size_of_each_op": [[1, 1, 1, 1, 1, 1], [1]],
  "data_parallel_size_of_each_op": [[1, 1, 1, 1, 1, 1], [2]],
  "recompute_ops": [[0, 1, 1, 1, 1, 1], [0]],
  "algo_of_each_op": [[0, 0, 0, 0, 0, 0], [0]]})";

PlanQuestion question_for_table() {
  PlanQuestion question = question_of(2, "3xgeneric@1GB/s");
  question.model_name = "resnet_2B_mbs2_tp1_algo0.csv";
  question.model_content = table;
  question.profile = import_aceso(table, "resnet_2B_mbs2_tp1_algo0.csv");
  return question;
}

/// The text with `from`, which is in it, replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string text = aceso_plan_text;
  const std::size_t place = text.find(from);
  REQUIRE(place != std::string::npos);
  return text.replace(place, from.size(), to);
}

std::string aceso_complaint(const std::string& content) {
  return message_of([&] { imported("aceso", content, question_for_table()); });
}

}  // namespace

TEST_CASE(
    "Aceso: stages, degrees and batch are taken, and runs that recompute end with their block") {
  const Plan plan = imported("aceso", aceso_plan_text, question_for_table());
  CHECK(sizes_of(plan) == std::vector{6, 1});
  CHECK(plan.stages[1].devices == std::vector<std::vector<int>>{{1}, {2}});
  CHECK(plan.batch == Batch{.global = 8, .microbatch = 2, .microbatches = 4, .sequence = 0});
  CHECK(plan.schedule.name == "1f1b");
  using enum Recomputed;
  CHECK(plan.stages[0].again == std::vector{none, full, with_next, full, with_next, full});
  CHECK(plan.stages[1].again.empty());
  const Plan without =
      imported("aceso", with("[true, true]", "[false, true]"), question_for_table());
  CHECK(without.stages[0].again.empty());
}

TEST_CASE("Aceso: tensor-parallel peers are one replica") {
  const std::string text = with("[1, 1, 1, 1, 1, 1], [1]]", "[1, 1, 1, 1, 1, 1], [2]]");
  std::string alone = text;
  alone.replace(alone.find("], [2]],\n  \"recompute"), 6, "], [1]");
  const Plan plan = imported("aceso", alone, question_for_table());
  CHECK(plan.stages[1].devices == std::vector<std::vector<int>>{{1, 2}});
}

TEST_CASE("Aceso: what a plan has no words for is said at its place") {
  CHECK_THAT(aceso_complaint(with("[1, 1, 1, 1, 1, 1], [1]]", "[1, 1, 1, 2, 1, 1], [1]]")),
             ContainsSubstring("model_parallel_size_of_each_op[0][3]: this operator is split over "
                               "2 x 1 devices, the first of its stage over 1 x 1"));
  CHECK_THAT(aceso_complaint(with("\"num_gpus\": [1, 2]", "\"num_gpus\": [1, 1]")),
             ContainsSubstring("num_gpus[1]: the stage's operators are split over 1 x 2 devices"));
  CHECK_THAT(aceso_complaint(with("[6, 1]", "[5, 1]")),
             ContainsSubstring("the stage has 5 operators, but 6 are listed here"));
  CHECK_THAT(aceso_complaint(with("\"num_stages\": 2", "\"num_stages\": 1")),
             ContainsSubstring("the stages have 6 operators, but resnet_2B has 7: the last ones "
                               "would never be trained"));
  CHECK_THAT(aceso_complaint(with("[6, 1]", "[6, 2]")),
             ContainsSubstring("num_ops_in_each_stage[1]: expected an integer from 1 to 1"));
  CHECK_THAT(aceso_complaint(with("\"2B\"", "\"4B\"")),
             ContainsSubstring("the plan is for resnet_4B, but \"resnet_2B_mbs2_tp1_algo0.csv\" "
                               "is of resnet_2B"));
  CHECK_THAT(aceso_complaint(with("\"micro_batch_size\": 2", "\"micro_batch_size\": 3")),
             ContainsSubstring("8"));
  CHECK_THAT(aceso_complaint(with("\"num_stages\": 2,", "")), ContainsSubstring("num_stages"));
  PlanQuestion other = question_of(2, "3xh100");
  CHECK_THAT(message_of([&] { imported("aceso", aceso_plan_text, other); }),
             ContainsSubstring("name a table of that as --model, such as "
                               "resnet_2B_mbs1_tp1_algo0.csv"));
  PlanQuestion twice = question_for_table();
  twice.options.batch = 8;
  CHECK_THAT(message_of([&] { imported("aceso", aceso_plan_text, twice); }),
             ContainsSubstring("the file has global_batch_size already; leave --batch away"));
  const ImportedPlan other_way = import_plan(
      plan_importer("aceso"), with("[0, 0, 0, 0, 0, 0], [0]]", "[0, 1, 0, 1, 0, 0], [0]]"),
      "plan.txt", question_for_table());
  REQUIRE(other_way.notes.size() == 1);
  CHECK_THAT(other_way.notes[0], ContainsSubstring("2 operators are split in Aceso's second way"));
}
