// torchtitan's TOML as plans: what its keys mean, what is left out of it, and what it refuses.

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/planner/interop/importers/questions.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

ImportedPlan titan(const std::string& content, const PlanQuestion& question) {
  return import_plan(plan_importer("torchtitan"), content, "job.toml", question);
}

bool has_note(const ImportedPlan& imported, std::string_view words) {
  return std::ranges::any_of(imported.notes, [&](const std::string& note) {
    return note.find(words) != std::string::npos;
  });
}

const std::string training = "[training]\nlocal_batch_size = 2\nseq_len = 32\n";

}  // namespace

TEST_CASE("torchtitan: FSDP over what devices are left, each microbatch of the local batch") {
  const Plan plan = titan(training +
                              "global_batch_size = 32\n[parallelism]\n"
                              "data_parallel_shard_degree = -1\ntensor_parallel_degree = 2\n"
                              "[activation_checkpoint]\nmode = 'full'\n",
                          question_of(4, "8xh100"))
                        .plan;
  CHECK(plan.stages.size() == 1);
  CHECK(replicas_of_stages(plan) == std::vector{4});
  CHECK(tensor_degree(plan) == 2);
  CHECK(plan.parallelism.sequence);
  CHECK(plan.optimizer.sharding == Sharding::zero3);
  CHECK(plan.precision == Precision::bfloat16);
  CHECK(plan.kernels.framework == Framework::torch);
  CHECK(plan.batch == Batch{.global = 32, .microbatch = 8, .microbatches = 4, .sequence = 32});
  // Every block by itself, neither embedding nor head.
  CHECK(std::ranges::count(plan.stages.front().again, Recomputed::full) == 4);
}

TEST_CASE("torchtitan: what is left out has torchtitan's defaults") {
  const ImportedPlan imported = titan("[training]\nsteps = 10\n", question_of(4, "4xh100"));
  const Plan& plan = imported.plan;
  CHECK(plan.batch == Batch{.global = 32, .microbatch = 32, .microbatches = 1, .sequence = 2048});
  CHECK(plan.optimizer.sharding == Sharding::zero3);
  // Selective, every second block.
  CHECK(std::ranges::count(plan.stages.front().again, Recomputed::full) == 2);
  CHECK(has_note(imported, "the file trains llama3 debugmodel"));
}

TEST_CASE("torchtitan: stages count embedding and head as layers, the first ones get the rest") {
  const auto sizes = [](int blocks, const std::string& parallelism) {
    return sizes_of(titan("[training]\nlocal_batch_size = 8\n[parallelism]\n" + parallelism +
                              "\n[activation_checkpoint]\nmode = 'none'\n",
                          question_of(blocks, "4xh100"))
                        .plan);
  };
  // 13 and the two of the ends over 4 stages: 4, 4, 4 and 3.
  CHECK(sizes(13, "pipeline_parallel_degree = 4") == std::vector{4, 4, 4, 3});
  const std::string two = "pipeline_parallel_degree = 2\n";
  CHECK(sizes(8, two + "pipeline_parallel_schedule = 'Interleaved1F1B'") ==
        std::vector{3, 3, 2, 2});
  CHECK(sizes(8, two + "pipeline_parallel_last_stage_less_layers = 3") == std::vector{6, 4});
  CHECK(sizes(10, two + "pipeline_parallel_schedule = 'Interleaved1F1B'\n"
                        "pipeline_parallel_layers_per_stage = 2") == std::vector{2, 2, 2, 2, 2, 2});
  CHECK(sizes(4, two + "pipeline_parallel_split_points = ['layers.1']") == std::vector{2, 4});
  CHECK(sizes(4, two + "module_fqns_per_model_part = [['tok_embeddings', 'layers.0', 'layers.1', "
                       "'layers.2'],\n  ['layers.3', 'norm', 'output']]") == std::vector{4, 2});
}

TEST_CASE("torchtitan: pipelines cut the local batch, and keep parameters between microbatches") {
  const ImportedPlan imported = titan(
      "[training]\nlocal_batch_size = 8\nglobal_batch_size = 32\nseq_len = 32\n[parallelism]\n"
      "pipeline_parallel_degree = 2\npipeline_parallel_microbatch_size = 2\n",
      question_of(4, "4xh100"));
  CHECK(imported.plan.batch ==
        Batch{.global = 32, .microbatch = 4, .microbatches = 8, .sequence = 32});
  CHECK(imported.plan.optimizer.sharding == Sharding::zero1);
  CHECK(has_note(imported, "fills and drains the pipeline 2 times in a step"));
}

TEST_CASE("torchtitan: DDP sends gradients in buckets of 100 MiB, hybrid sharding is told of") {
  const Plan ddp = titan(
                       "[parallelism]\ndata_parallel_replicate_degree = 4\n"
                       "data_parallel_shard_degree = 1\n[training]\nseq_len = 32\n",
                       question_of(2, "4xh100"))
                       .plan;
  CHECK(ddp.optimizer.sharding == Sharding::none);
  CHECK(ddp.optimizer.gradient_bucket == Bytes{100} << 20);
  const ImportedPlan hybrid = titan(
      "[parallelism]\ndata_parallel_replicate_degree = 2\n" + training, question_of(2, "4xh100"));
  CHECK(hybrid.plan.optimizer.sharding == Sharding::zero3);
  CHECK(has_note(hybrid, "sharded over 2 of the 4 replicas, 2 times over"));
}

TEST_CASE("torchtitan: mixed precision wants FSDP, converters multiply in 8 bits") {
  const ImportedPlan plain =
      titan("[parallelism]\ntensor_parallel_degree = 4\n" + training, question_of(2, "4xh100"));
  CHECK(plain.plan.precision == Precision::float32);
  CHECK(has_note(plain, "this run is in fp32"));
  CHECK(titan("[model]\nconverters = ['float8']\n" + training, question_of(2, "4xh100"))
            .plan.precision == Precision::float8);
}

TEST_CASE("torchtitan: files of the releases before 0.1 are read, too") {
  const Plan plan = titan(
                        "[training]\nbatch_size = 8\nseq_len = 32\ntensor_parallel_degree = 2\n"
                        "data_parallel_degree = -1\n[experimental]\n"
                        "pipeline_parallel_degree = 2\npipeline_parallel_microbatches = 4\n"
                        "pipeline_parallel_schedule = '1f1b'\n",
                        question_of(4, "8xh100"))
                        .plan;
  CHECK(plan.stages.size() == 2);
  CHECK(tensor_degree(plan) == 2);
  CHECK(plan.batch == Batch{.global = 16, .microbatch = 4, .microbatches = 4, .sequence = 32});
}

TEST_CASE("torchtitan: each key is taken, listed as not modelled, or unknown, with its line") {
  const ImportedPlan imported = titan(
      "[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nseq_len = 32\n"
      "enable_cpu_offload = true\n[compile]\nenable = true\n[fault_tolerance]\nenable = false\n"
      "group_size = 2\n[optimizer]\nname = 'AdamW'\nimplementation = 'fused'\nmomentum = 0.9\n",
      question_of(2, "2xh100"));
  std::vector<std::pair<std::string, int>> left_out, unknown;
  for (const ReadText& text : imported.not_modelled)
    left_out.emplace_back(text.text, text.place.line);
  for (const ReadText& text : imported.unknown) unknown.emplace_back(text.text, text.place.line);
  CHECK(left_out == std::vector<std::pair<std::string, int>>{
                        {"training.enable_cpu_offload = true", 6}, {"compile.enable = true", 8}});
  CHECK(unknown == std::vector<std::pair<std::string, int>>{{"optimizer.momentum = 0.9", 15}});
  CHECK(imported.understood.size() == 7);
  CHECK(plan_importer("torchtitan")
            .model_of("[model]\nname='llama3'\nflavor = \"70B\"", "job.toml") == "llama3-70b");
}

TEST_CASE("torchtitan: what it would refuse is refused with the line") {
  const auto refused = [](const std::string& content, int line, std::string_view words) {
    INFO(content);
    try {
      titan(content, question_of(4, "4xh100"));
      FAIL("it is no plan");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      CHECK_THAT(error.message(), ContainsSubstring(std::string(words)));
      REQUIRE(error.place());
      CHECK(error.place()->line == line);
    }
  };
  refused("[training]\nseq_len = 32\nseq_len = 64\n", 3, "no TOML");
  refused("[parallelism]\ndata_parallel_shard_degree = 3\n", 2, "4 replicas are left for");
  refused("[parallelism]\npipeline_parallel_degree = 3\n", 2, "3 x 1 x 1 do not divide");
  refused("[training]\nglobal_batch_size = 12\n", 2, "no multiple of 8 samples on each of 4");
  refused(
      "[parallelism]\npipeline_parallel_degree = 4\n[training]\nlocal_batch_size = 3\n"
      "[parallelism.more]\n[activation_checkpoint]\nmode = 'some'\n",
      7, "expected none, full, selective or memory_budget, found 'some'");
  refused("[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = '2F2B'\n", 3,
          "2F2B");
  refused("[parallelism]\ndata_parallel_replicate_degree = 2\ntensor_parallel_degree = 2\n", 2, "");
  refused(
      "[parallelism]\npipeline_parallel_degree = 2\n"
      "module_fqns_per_model_part = [['layers.0'], ['layers.9']]\n",
      3, "layers.9");
}

TEST_CASE("torchtitan: what the file says already is not said again") {
  PlanQuestion question = question_of(2, "2xh100");
  question.options.sequence = 64;
  CHECK_THROWS_WITH(titan(training, question), ContainsSubstring("leave --sequence away"));
  question.options.sequence.reset();
  question.options.batch = 16;
  CHECK(titan(training, question).plan.batch.global == 16);
  question.options.batch = 6;
  CHECK_THROWS_WITH(titan(training, question), ContainsSubstring("no multiple of the 4 samples"));
}
