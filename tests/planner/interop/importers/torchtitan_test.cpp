// torchtitan's TOML as plans: what its keys mean, what is left out of it, and what it refuses.

#include <algorithm>
#include <filesystem>

#include "planner/interop/exporters.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
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
            .model_of("[model]\nname='llama3'\nflavor = \"70B\"", "job.toml", {}) == "llama3-70b");
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

TEST_CASE("torchtitan: launch lines start with a file, and set what stands over it") {
  const TemporaryFolder folder;
  folder.file("conf/job.toml", training +
                                   "[parallelism]\ntensor_parallel_degree = 2\n"
                                   "[activation_checkpoint]\nmode = 'full'\n");
  const std::string script = (folder.path() / "run.sh").string();
  const auto read = [&](const std::string& line, const ScriptVariables& variables = {}) {
    PlanQuestion question = question_of(4, "8xh100");
    question.variables = variables;
    return import_plan(plan_importer("torchtitan"), line, script, question);
  };
  const std::string start =
      "torchrun --nproc_per_node=8 --rdzv_backend c10d -m torchtitan.train "
      "--job.config_file conf/job.toml ";
  const Plan plain = read(start).plan;
  CHECK(tensor_degree(plain) == 2);
  CHECK(replicas_of_stages(plain) == std::vector{4});
  const Plan piped = read(start +
                          "--parallelism.pipeline_parallel_degree 4 "
                          "--training.local-batch-size=8 --compile.enable")
                         .plan;
  CHECK(piped.stages.size() == 4);
  CHECK(piped.batch.microbatches == 8);
  const ImportedPlan run = read(
      "NGPU=4 CONFIG_FILE=\"./conf/job.toml\" ./run_train.sh "
      "--parallelism.pipeline_parallel_degree 2");
  CHECK(run.plan.stages.size() == 2);
  CHECK(replicas_of_stages(run.plan) == std::vector{1, 1});
  CHECK(run.others.size() == 1);
  const std::string open =
      "torchrun --nproc_per_node=$GPUS torchtitan/train.py "
      "--job.config_file conf/job.toml "
      "--parallelism.pipeline_parallel_degree $PP";
  CHECK(read(open, {{"PP", "2"}, {"GPUS", "4"}}).plan.stages.size() == 2);
  CHECK(has_note(read(open, {{"PP", "2"}}), "all devices of the cluster are taken"));
  CHECK_THAT(message_of([&] { read(open); }), ContainsSubstring("a variable has no value: PP"));
  CHECK_THAT(message_of([&] {
               read(open, {{"QQ", "2"}});
             }),
             ContainsSubstring("neither reads nor sets QQ"));
  CHECK_THAT(message_of([&] { read("torchrun -m torchtitan.train --job.config_file no.toml"); }),
             ContainsSubstring("starts with no.toml, which is not beside the file"));
  CHECK_THAT(message_of([&] { read("NGPU=16 CONFIG_FILE=conf/job.toml ./run_train.sh"); }),
             ContainsSubstring("starts 16 ranks, and the cluster has 8 devices"));
  CHECK_THAT(message_of([&] { read(start + "\n" + start); }),
             ContainsSubstring("starts torchtitan 2 times"));
}

TEST_CASE("torchtitan: since 0.3 launches name a module and a function of it") {
  const TemporaryFolder folder;
  const std::string script = (folder.path() / "run.sh").string();
  const auto read = [&](const std::string& line) {
    return import_plan(plan_importer("torchtitan"), line, script, question_of(4, "8xh100"));
  };
  const Plan known = read(
                         "MODULE=llama3 CONFIG=llama3_70b ./run_train.sh "
                         "--parallelism.no-enable-sequence-parallel "
                         "--parallelism.tensor_parallel_degree 2")
                         .plan;
  CHECK(tensor_degree(known) == 2);
  CHECK_FALSE(known.parallelism.sequence);
  CHECK(known.batch.global == 32);
  CHECK(known.batch.sequence == 8192);
  CHECK(known.precision == Precision::bfloat16);
  folder.file(
      "own.py",
      "from torchtitan.config import ParallelismConfig, TrainingConfig\n"
      "def small():\n"
      "    config = base()\n"
      "    config.training.local_batch_size = 4  # a comment\n"
      "    config.parallelism = ParallelismConfig(\n"
      "        pipeline_parallel_degree=2, data_parallel_shard_degree=-1,\n"
      "        module_fqns_per_model_part=PARTS)\n"
      "    config.activation_checkpoint = None\n"
      "    return config\n"
      "def large():\n"
      "    return Trainer.Config(training=TrainingConfig(local_batch_size=16, seq_len=64),\n"
      "                          parallelism=ParallelismConfig())\n"
      "PARTS = [['tok_embeddings', 'layers.0'],\n"
      "         ['layers.1', 'layers.2', 'layers.3', 'norm', 'lm_head']]\n");
  const std::string start =
      "torchrun --nproc_per_node 8 -m torchtitan.train --module own --config ";
  const Plan small = read(start + "small").plan;
  CHECK(sizes_of(small) == std::vector{2, 4});
  CHECK(small.batch == Batch{.global = 16, .microbatch = 4, .microbatches = 4, .sequence = 2048});
  CHECK(read(start + "large").plan.batch.global == 128);
  CHECK_THAT(message_of([&] { read(start + "other"); }),
             ContainsSubstring("has no configuration \"other\"; it has small and large"));
  const auto python = [](const std::string& content) {
    return import_plan(plan_importer("torchtitan"), content, "own.py", question_of(4, "8xh100"));
  };
  CHECK_THAT(message_of([&] { python(read_file((folder.path() / "own.py").string())); }),
             ContainsSubstring("has 2 configurations: small and large"));
  CHECK_THAT(message_of([&] { read("MODULE=llama3 CONFIG=own_8b ./run_train.sh"); }),
             ContainsSubstring("neither beside the file nor one that is known"));
}

TEST_CASE("torchtitan: what is exported for 0.3 is read back, with the order beside it") {
  const TemporaryFolder folder;
  PlanQuestion question = question_of(4, "8xh100");
  question.profile.model = builtin_model("llama3-8b");
  question.model_name = "llama3-8b";
  const auto again = [&](const Plan& plan) {
    const std::vector<ExportedFile> files = export_torchtitan({.plan = plan,
                                                               .profile = question.profile,
                                                               .cluster = question.cluster,
                                                               .path = "plan.json",
                                                               .hash = {}});
    for (const ExportedFile& file : files) folder.file("out" + file.suffix, file.content);
    return import_plan(plan_importer("torchtitan"), files.front().content,
                       (folder.path() / "out.py").string(), question);
  };
  const std::string batch = "[training]\nlocal_batch_size = 8\nseq_len = 512\n[parallelism]\n";
  const std::string none = "\n[activation_checkpoint]\nmode = 'none'\n";
  const std::string four = batch + "pipeline_parallel_degree = 4\n";
  for (const std::string& toml :
       {batch + "tensor_parallel_degree = 2\n[activation_checkpoint]\nmode = 'full'\n",
        batch + "context_parallel_degree = 2" + none, four + none,
        four + "pipeline_parallel_schedule = 'Interleaved1F1B'" + none,
        batch + "pipeline_parallel_degree = 2\npipeline_parallel_schedule = 'ZBVZeroBubble'" + none,
        four + "data_parallel_shard_degree = 1\ntensor_parallel_degree = 2" + none}) {
    INFO(toml);
    const Plan plan = titan(toml, question).plan;
    const ImportedPlan read = again(plan);
    CHECK(read.plan == plan);
    CHECK(read.notes.empty());
  }
  Plan ordered = titan(four + none, question).plan;
  ordered.schedule.name = "zb-h1";
  CHECK(again(ordered).plan == ordered);
  folder.file("out.csv", "0F0\n");
  CHECK_THAT(message_of([&] {
               import_plan(plan_importer("torchtitan"),
                           read_file((folder.path() / "out.py").string()),
                           (folder.path() / "out.py").string(), question);
             }),
             ContainsSubstring("is not that of zb-h1"));
}
