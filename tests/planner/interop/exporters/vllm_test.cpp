// vLLM's launch line.

#include "planner/interop/exporters.hpp"
#include "simulator/schedules/schedules.hpp"
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

TEST_CASE("vLLM's lines go there and back, by either of its programs") {
  const auto read = [](const std::string& line, PlanOptions options, const char* cluster) {
    return imported("vllm", line, question_of(6, cluster, std::move(options)));
  };
  const PlanOptions options{.batch = 8, .microbatch = 2};
  for (const int cut : {3, 7}) {
    Plan plan = plan_cut_at(cut);
    plan.schedule = {.name = "inference"};
    plan.weights = find_schedule("inference").weights;
    plan.batch = {.global = 8, .microbatch = 2, .microbatches = 4, .sequence = 40};
    for (const Requests& requests : {Requests{.output = 24, .chunk = 64, .memory = 0.9},
                                     Requests{.output = 1, .chunk = 8192, .memory = 0.5}}) {
      plan.requests = requests;
      PlanOptions said = options;
      said.sequence = 40;
      Plan again = read(written(plan), said, "4xh100");
      again.model = plan.model;
      CHECK(again == plan);
    }
  }
  const std::string flags = " -pp 2 -tp=2 --data_parallel_size 1 --dtype half --max-model-len 64";
  for (const std::string start :
       {"vllm serve org/model", "python3 -m vllm.entrypoints.openai.api_server --model org/model",
        "docker run --gpus all -e VLLM_PP_LAYER_PARTITION=3,3 vllm/vllm-openai:v0.12 --model m"}) {
    INFO(start);
    const Plan plan = read(start + flags, options, "4xh100");
    CHECK(sizes_of(plan) == std::vector{4, 4});
    CHECK(tensor_degree(plan) == 2);
    CHECK(plan.precision == Precision::float16);
    CHECK(plan.schedule.name == "inference");
  }
  // What is left over of 6 layers over 4 ranks goes to the ranks before the last.
  CHECK(sizes_of(read("vllm serve m -pp 4", options, "4xh100")) == std::vector{2, 2, 2, 2});
  CHECK(sizes_of(read("vllm serve m -pp 5 -tp 1", options, "5xh100")) ==
        std::vector{2, 1, 1, 2, 2});
}

TEST_CASE("vLLM is told the plan's requests, and no more at once than there is room for") {
  Plan plan = plan_cut_at(3);
  plan.schedule = {.name = "inference"};
  plan.weights = find_schedule("inference").weights;
  plan.batch.sequence = 40;
  plan.requests = Requests{.output = 24, .chunk = 64, .memory = 0.9};
  CHECK_THAT(written(plan), ContainsSubstring(" \\\n  --max-model-len 64 \\\n"
                                              "  --max-num-seqs 64 \\\n"
                                              "  --max-num-batched-tokens 64 \\\n"
                                              "  --gpu-memory-utilization 0.9\n"));
  plan.requests->memory = 1;
  CHECK_THAT(message_of([&] { written(plan); }), ContainsSubstring("plan with --mem-limit 9"));
}

TEST_CASE("vLLM's words for requests are read, and its defaults where there are none") {
  const auto read = [](const std::string& flags, const char* cluster = "4xh100",
                       PlanOptions options = {.batch = 8}) {
    PlanQuestion question = question_of(6, cluster, std::move(options));
    question.profile.model = builtin_model("llama3-8b");  // 8192 positions
    return imported("vllm", "vllm serve m " + flags, question);
  };
  const Plan plain = read("");
  CHECK(plain.batch.sequence == 8192 - 256);
  CHECK(plain.requests->output == 256);
  CHECK(plain.requests->chunk == 8192);
  CHECK(plain.requests->memory == 0.92);
  // `get_batch_defaults`: by memory, and not A100.
  CHECK(read("", "4xa100-80gb").requests->chunk == 2048);
  CHECK(read("", "4xb200").requests->chunk == 16384);
  const Plan said =
      read("--max-model-len 1K --max-num-batched-tokens=4k --gpu_memory_utilization 0.8");
  CHECK(said.batch.sequence == 1024 - 256);
  CHECK(said.requests == Requests{.output = 256, .chunk = 4000, .memory = 0.8});
  CHECK(read("--max-model-len 10").batch.sequence == 5);
  CHECK(read("--max-num-seqs 12 -dp 2", "4xh100", {}).batch.global == 24);
  CHECK_THAT(message_of([&] { read("--max-model-len many"); }),
             ContainsSubstring("expected a number of tokens such as 8192 or 8K"));
  CHECK_THAT(message_of([&] { read("--gpu-memory-utilization 90"); }),
             ContainsSubstring("more than 0 and at most 1"));
  CHECK_THAT(
      message_of([&] { read("--max-model-len 64", "4xh100", {.batch = 8, .sequence = 64}); }),
      ContainsSubstring("leaves 0 for what follows a prompt of 64"));
}

TEST_CASE("vLLM on several nodes: a script that each of them runs, and its import") {
  const PlanQuestion question = question_of(6, "2x2xh100");
  Plan plan = plan_cut_at(3);
  const std::string script = export_vllm({.plan = plan,
                                          .profile = question.profile,
                                          .cluster = question.cluster,
                                          .path = "plan.json",
                                          .hash = {}});
  CHECK_THAT(script, ContainsSubstring("On each of 2 nodes"));
  CHECK_THAT(script, ContainsSubstring("--nnodes 2 --node-rank \"$NODE_RANK\""));
  CHECK_THAT(script, ContainsSubstring("HEADLESS=--headless"));
  PlanQuestion asked = question;
  asked.options = {.batch = 8};
  const Plan again = imported("vllm", script, asked);
  CHECK(again.stages == plan.stages);
  const std::string other = "vllm serve m -pp 2 --node-rank 0\nvllm serve m -pp 4 --headless\n";
  CHECK_THAT(message_of([&] { imported("vllm", other, asked); }),
             ContainsSubstring("starts vLLM in several ways"));
}

TEST_CASE("vLLM's lines are refused where it would refuse them, with the place") {
  const auto refused = [](const std::string& line, PlanOptions options = {.batch = 8}) {
    return message_of(
        [&] { imported("vllm", line, question_of(6, "4xh100", std::move(options))); });
  };
  CHECK_THAT(refused("vllm serve m -pp 8"), ContainsSubstring("the cluster has 4"));
  CHECK_THAT(refused("vllm serve m -pp two"), ContainsSubstring("expected a whole number"));
  CHECK_THAT(refused("VLLM_PP_LAYER_PARTITION=3,3 vllm serve m -pp 4"),
             ContainsSubstring("is for 2 ranks, and --pipeline-parallel-size is 4"));
  CHECK_THAT(refused("VLLM_PP_LAYER_PARTITION=3,4 vllm serve m -pp 2"),
             ContainsSubstring("has 7 layers, and the model \"deep\" has 6"));
  CHECK_THAT(refused("vllm serve m -pp $PP"), ContainsSubstring("a variable has no value: PP"));
  CHECK_THAT(refused("vllm serve m --dtype fp4"), ContainsSubstring("--dtype: expected auto"));
  CHECK_THAT(refused("vllm serve m", {}), ContainsSubstring("add --batch N"));
  CHECK_THAT(refused("vllm bench m"), ContainsSubstring("found none"));
}
