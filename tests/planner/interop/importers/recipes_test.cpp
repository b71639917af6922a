// Recipes in YAML that begin with others, or that a launch names.

#include <algorithm>
#include <string>

#include "planner/interop/importers/megatron_flags.hpp"
#include "profiles/text.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/interop/importers/launches.hpp"
#include "tests/planner/interop/importers/questions.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("a recipe stands over those that it begins with, which are read beside it") {
  const TemporaryFolder folder;
  folder.file("base.yaml",
              "policy:\n  precision: bfloat16\n  train_micro_batch_size: 1\n"
              "  train_global_batch_size: 32\n  dtensor_cfg:\n    enabled: true\n"
              "    sequence_parallel: true\n"
              "  megatron_cfg:\n    enabled: false\n    recompute_granularity: full\n"
              "    fp8_cfg:\n      enabled: false\n      fp8: e4m3\n    cuda_graph_modules: []\n"
              "    optimizer:\n      use_distributed_optimizer: true\n"
              "    tensor_model_parallel_size: ${policy.degree}\n"
              "cluster:\n  gpus_per_node: 8\n  num_nodes: 1\n");
  const auto recipe = [&](const std::string& members) {
    return launch("defaults: base.yaml\npolicy:\n  degree: 4\n  megatron_cfg:\n" + members, {},
                  (folder.path() / "recipe.yaml").string());
  };
  const MegatronLaunch read = recipe("    enabled: true\n    pipeline_model_parallel_size: 2\n");
  const MegatronFlags flags{.pipeline = 2,
                            .tensor = 4,
                            .microbatch = 1,
                            .global_batch = 32,
                            .nodes = 1,
                            .processes = 8,
                            .shards_optimizer = true,
                            .bf16 = true};
  CHECK(read.flags == flags);
  CHECK(read.others.size() == 1);
  CHECK(read.not_modelled.empty());
  CHECK(recipe("    enabled: true\n    activation_checkpointing: true\n").flags.recompute ==
        "full");
  CHECK_THAT(message_of([&] { recipe("    pipeline_model_parallel_size: 2\n"); }),
             ContainsSubstring("policy.megatron_cfg.enabled: false: another program trains here"));
  // As Hydra lists them: a group's choice fills the group, and the recipe itself has its place.
  folder.file("train/8b.yaml", "model:\n  num_layers: 8\n  micro_batch_size: 1\n");
  const std::string list = "defaults:\n  - train: 8b\n  - _self_\ntrain:\n  model:\n";
  CHECK(launch(list + "    micro_batch_size: 2\n", {}, (folder.path() / "r.yaml").string()).flags ==
        MegatronFlags{.layers = 8, .microbatch = 2});
  CHECK(launch("defaults: [_self_, train/8b@train]\ntrain:\n  model:\n    micro_batch_size: 2\n",
               {}, (folder.path() / "r.yaml").string())
            .flags.microbatch == 1);
  CHECK(notes_mention(launch("defaults: no.yaml\nmodel:\n  num_layers: 8\n  micro_batch_size: 1\n",
                             {}, (folder.path() / "r.yaml").string()),
                      "begins with no.yaml, which is not beside it"));
  folder.file("self.yaml", "defaults: self\n");
  CHECK_THAT(
      message_of([&] { launch("defaults: self\n", {}, (folder.path() / "r.yaml").string()); }),
      ContainsSubstring("does one begin with itself?"));
}

TEST_CASE("a launch stands over the recipe that it names") {
  const TemporaryFolder folder;
  folder.file("conf/run.yaml",
              "policy:\n  train_micro_batch_size: 1\n  precision: bfloat16\n  megatron_cfg:\n"
              "    tensor_model_parallel_size: 2\n    pipeline_model_parallel_size: 4\n");
  const std::string start = "ROOT=$(realpath .)\npython $ROOT/run.py --config ";
  const MegatronLaunch read =
      launch(start + "$ROOT/conf/run.yaml policy.megatron_cfg.tensor_model_parallel_size=8", {},
             (folder.path() / "run.sh").string());
  CHECK(read.flags == MegatronFlags{.pipeline = 4, .tensor = 8, .microbatch = 1, .bf16 = true});
  CHECK(notes_mention(launch(start + "no.yaml policy.megatron_cfg.tensor_model_parallel_size=8", {},
                             (folder.path() / "run.sh").string()),
                      "--config no.yaml names a recipe that is not beside the script"));
  CHECK_THAT(message_of([&] {
               launch("python run.py --exp no.yaml", {}, (folder.path() / "run.sh").string());
             }),
             ContainsSubstring("starts with --exp no.yaml, which is not beside it"));
  folder.file("launcher_scripts/conf/peft/llama/sft.yaml",
              "trainer:\n  precision: bf16\n  devices: 8\nmodel:\n"
              "  tensor_model_parallel_size: 2\n  micro_batch_size: 4\n"
              "  encoder_seq_length: ${model.data.length}\n  data:\n    length: 1024\n");
  const std::string peft =
      "python main.py peft=llama/sft peft.trainer.num_nodes=2 "
      "peft.model.micro_batch_size=1 peft.model.data.length=4096";
  CHECK(launch(peft, {}, (folder.path() / "run.sh").string()).flags ==
        MegatronFlags{.tensor = 2,
                      .microbatch = 1,
                      .sequence = 4096,
                      .nodes = 2,
                      .processes = 8,
                      .bf16 = true});
}

TEST_CASE("recipes that refer to themselves are refused, however they do it") {
  const auto refused = [](const std::string& content) {
    return message_of([&] { launch(content, {}, "recipe.yaml"); });
  };
  const std::string model = "model:\n  num_layers: 8\n";
  CHECK_THAT(refused("<<: &a [*a]\n" + model), ContainsSubstring("nested too deeply"));
  CHECK_THAT(refused("x: &a {<<: *a}\n" + model), ContainsSubstring("nested too deeply"));
  std::string many = model;
  for (int i = 1; i < 5; ++i) {
    many += concat("x", i, ": ${add:");
    for (int j = 0; j < 60; ++j) many += concat(j == 0 ? "" : ",", "${x", i + 1, "}");
    many += "}\n";
  }
  CHECK_THAT(refused(many + "x5: 1\n"), ContainsSubstring("unfolds to more than"));
}

TEST_CASE("of several recipes the last stands over the others, and one without degrees is told") {
  const TemporaryFolder folder;
  const auto degree = [](int tensor) {
    return concat("model:\n  micro_batch_size: 1\n  tensor_model_parallel_size: ", tensor, "\n");
  };
  folder.file("a.yaml", degree(2) + "  num_layers: 8\n");
  folder.file("b.yaml", degree(4));
  folder.file("data.yaml", "data:\n  micro_batch_size: 16\n");
  const std::string script = (folder.path() / "run.sh").string();
  const auto flags = [&](const std::string& recipes) {
    return launch("python run.py " + recipes, {}, script).flags;
  };
  CHECK(flags("--config a.yaml --config b.yaml") ==
        MegatronFlags{.layers = 8, .tensor = 4, .microbatch = 1});
  CHECK(flags("--config b.yaml --config a.yaml").tensor == 2);
  const MegatronLaunch read =
      launch("for i in 1 2 3; do python run.py --config a.yaml --exp data.yaml; done", {}, script);
  CHECK(read.flags.microbatch == 1);
  const auto told = [](const std::string& note) {
    return note.find("data.yaml, which --exp data.yaml names, sets no degree") != std::string::npos;
  };
  CHECK(std::ranges::count_if(read.notes, told) == 1);
}

TEST_CASE("a recipe whose name has a hole is not another one beside the script") {
  const TemporaryFolder folder;
  folder.file("a.yaml", "model:\n  micro_batch_size: 1\n  tensor_model_parallel_size: 2\n");
  const std::string script = (folder.path() / "run.sh").string();
  CHECK_THAT(message_of([&] { launch("python run.py --config conf/$MODEL/a.yaml", {}, script); }),
             ContainsSubstring("which is not beside it"));
  CHECK(launch("python run.py --config $(pwd)/a.yaml", {}, script).flags.tensor == 2);
}

TEST_CASE("choices of groups stand where they are mounted, and what they refer to is found there") {
  const TemporaryFolder folder;
  folder.file("size/small.yaml", "num_layers: 8\nmicro_batch_size: ${model.gpt.rows}\nrows: 2\n");
  folder.file("all.yaml", "model:\n  tensor_model_parallel_size: 4\n");
  const auto flags = [&](const std::string& defaults) {
    return launch("defaults:\n" + defaults + "model:\n  pipeline_model_parallel_size: 2\n", {},
                  (folder.path() / "r.yaml").string())
        .flags;
  };
  CHECK(flags("  - size/small@model.gpt\n") ==
        MegatronFlags{.layers = 8, .pipeline = 2, .microbatch = 2});
  folder.file("model/big.yaml", "tensor_model_parallel_size: 8\n");
  CHECK(flags("  - optional model: big\n").tensor == 8);
  CHECK(flags("  - override model: big\n").tensor == 8);
  CHECK(flags("  - /all@_global_\n").tensor == 4);
}

TEST_CASE("words of a list may be open, and are told as the script has them") {
  const MegatronLaunch read = launch(
      "ENV=1\np.py --micro-batch-size 1 --recompute-granularity selective "
      "--recompute-modules layernorm mlp --tensor-model-parallel-size 2");
  CHECK(to_string(read.flags.recompute_modules) == "layernorm+mlp");
  CHECK(read.flags.tensor == 2);
  CHECK_THAT(complaint("p.py --micro-batch-size 1 --recompute-modules layernorm $EXTRA mlp"),
             ContainsSubstring("a variable has no value: EXTRA"));
}

namespace {

/// As NeMo's recipes for clouds: how many nodes there are, who starts it says.
const std::string recipe_of_nodes =
    "trainer:\n  devices: 8\n  precision: bf16\nmodel:\n  num_layers: 8\n"
    "  micro_batch_size: 1\n  global_batch_size: 64\n  tensor_model_parallel_size: 4\n"
    "  pipeline_model_parallel_size: 4\n  encoder_seq_length: ${model.length}\n";

ImportedPlan import_recipe(const std::string& cluster, const ScriptVariables& variables,
                           const std::string& content = recipe_of_nodes) {
  PlanQuestion question = question_of(8, cluster);
  question.variables = variables;
  question.variables.try_emplace("model.encoder_seq_length", "512");
  return import_plan(plan_importer("megatron"), content, "recipe.yaml", question);
}

}  // namespace

TEST_CASE("a recipe without nodes runs on the cluster's, and the command line may say them") {
  const ImportedPlan all = import_recipe("4x8xh100", {});
  CHECK(all.plan.stages.size() == 4);
  CHECK(all.plan.stages[0].devices.size() == 2);
  CHECK(all.plan.batch.sequence == 512);
  CHECK_THAT(all.notes.front(), ContainsSubstring("all 4 of the cluster are taken; --set "
                                                  "trainer.num_nodes=N says it"));
  const ImportedPlan two = import_recipe("4x8xh100", {{"trainer.num_nodes", "2"}});
  CHECK(two.plan.stages[0].devices.size() == 1);
  CHECK(two.notes.empty());
  CHECK(import_recipe("4x4xh100", {}).plan.stages[0].devices.size() == 1);
  CHECK_THAT(message_of([] { import_recipe("3x4xh100", {}); }),
             ContainsSubstring("12 devices are no whole number of such nodes"));
  CHECK_THAT(message_of([] { import_recipe("8xh100", {}); }),
             ContainsSubstring("needs a multiple of 16 devices"));
}

TEST_CASE("settings of a recipe are said over its own, as Hydra has them, or refused") {
  const auto plan = [](const ScriptVariables& variables) {
    return import_recipe("4x8xh100", variables).plan;
  };
  CHECK(plan({{"model.pipeline_model_parallel_size", "2"}}).stages.size() == 2);
  CHECK(plan({{"++model.pipeline_model_parallel_size", "2"}}).stages.size() == 2);
  CHECK(plan({{"trainer.precision", "16"}}).precision == Precision::float16);
  CHECK(launch(recipe_of_nodes, {{"model.length", "256"}}, "r.yaml").flags.sequence == 256);
  CHECK_THAT(message_of([&] {
               plan({{"trainer.num_node", "4"}});
             }),
             ContainsSubstring("recipe.yaml neither reads nor sets trainer.num_node"));
  CHECK_THAT(message_of([&] {
               plan({{"model.num_layer", "4"}});
             }),
             ContainsSubstring("did you mean \"model.num_layers\"?"));
  CHECK_THAT(message_of([] { launch(recipe_of_nodes, {}, "r.yaml"); }),
             ContainsSubstring("a variable has no value: ${model.length}"));
  const std::string json =
      R"({"num_gpus": 4, "pipe_parallel_size": 2, "train_micro_batch_size_per_gpu": 1})";
  CHECK(launch(json, {{"num_nodes", "3"}}, "r.json").flags.nodes == 3);
  CHECK(launch(json, {}, "r.json").flags.open_nodes == "num_nodes");
}

TEST_CASE("a script whose recipe is not beside it is no plan without degrees of its own") {
  const TemporaryFolder folder;
  const std::string script = (folder.path() / "run.sh").string();
  for (const std::string start :
       {"python main.py training=gpt3/5b training.model.micro_batch_size=1",
        "python p.py --config no.yaml model.micro_batch_size=1 model.global_batch_size=8",
        "python p.py --config-path=/etc/conf --config-name=no.yaml model.micro_batch_size=1"}) {
    INFO(start);
    CHECK_THAT(message_of([&] { launch(start, {}, script); }),
               ContainsSubstring("which is not beside it, and says no degree of parallelism"));
  }
  folder.file("conf/own.yaml", "model:\n  tensor_model_parallel_size: 2\n  micro_batch_size: 4\n");
  const std::string hydra = "python p.py --config-path conf --config-name own trainer.num_nodes=2 ";
  CHECK(launch(hydra + "model.micro_batch_size=1", {}, script).flags ==
        MegatronFlags{.tensor = 2, .microbatch = 1});
}
