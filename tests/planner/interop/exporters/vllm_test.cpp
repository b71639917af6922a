// vLLM's launch line.

#include "planner/interop/exporters.hpp"
#include "tests/catch.hpp"
#include "tests/planner/interop/importers/questions.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

PlanQuestion six_blocks() {
  return question_of(6, "4xh100");
}

std::string written(const Plan& plan) {
  const PlanQuestion question = six_blocks();
  return export_vllm({.plan = plan,
                      .profile = question.profile,
                      .cluster = question.cluster,
                      .path = "plan.json",
                      .hash = {}});
}

/// 6 blocks between embedding and head on two ranks of two replicas.
Plan plan_cut_at(int cut) {
  Plan plan = imported("megatron",
                       "--pipeline-model-parallel-size 2 --micro-batch-size 1 "
                       "--global-batch-size 8 --bf16",
                       six_blocks());
  plan.stages[0].layers.end = plan.stages[1].layers.first = cut;
  return plan;
}

}  // namespace

TEST_CASE("vLLM is told how many transformer layers each rank serves") {
  CHECK(written(plan_cut_at(3)) ==
        "VLLM_PP_LAYER_PARTITION=2,4 vllm serve \"$MODEL\" \\\n"
        "  --pipeline-parallel-size 2 \\\n"
        "  --tensor-parallel-size 1 \\\n"
        "  --data-parallel-size 2 \\\n"
        "  --dtype bfloat16\n");
  CHECK(written(plan_cut_at(7)).find("PARTITION=6,0 ") != std::string::npos);
}

TEST_CASE("what vLLM cannot do is refused") {
  Plan looped = plan_cut_at(3);
  looped.schedule = {.name = "interleaved", .virtual_stages = 2};
  CHECK(message_of([&] { written(looped); }).find("one stage") != std::string::npos);
  Plan uneven = plan_cut_at(3);
  uneven.stages[1].devices.pop_back();
  CHECK(message_of([&] { written(uneven); }).find("as many replicas") != std::string::npos);
}
