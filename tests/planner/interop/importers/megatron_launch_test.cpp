// Launches of Megatron-LM, and of the programs made of it, as people write them.

#include <algorithm>
#include <filesystem>

#include "planner/interop/importers/flag_kinds.hpp"
#include "planner/interop/importers/megatron_flags.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/interop/importers/launches.hpp"
#include "tests/planner/interop/importers/questions.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("launch scripts are read as they are") {
  const std::string folder = shared_folder() + "/cases/launch-scripts/";
  if (!std::filesystem::exists(folder)) SKIP("no reference data at " + shared_folder());
  PlanQuestion question = question_of(1, "8xh100");
  question.profile.model = builtin_model("gpt2-350m");
  const auto read = [&](const std::string& name) {
    return import_plan(plan_importer("megatron"), read_file(folder + name), folder + name,
                       question);
  };
  for (const std::string name : {"g1_options_in_string.sh", "g2_variables.sh", "g4_branches.sh",
                                 "g5_old_checkpoint_flag.sh", "g6_recipe_precision.yaml"}) {
    INFO(name);
    const Plan plan = read(name).plan;
    CHECK(plan.stages.size() == 4);
    CHECK(plan.stages[0].devices == std::vector<std::vector<int>>{{0, 1}});
    const bool is_recipe = name.starts_with("g6");
    CHECK(plan.batch.microbatches == (is_recipe ? 64 : 32));
    CHECK(plan.batch.microbatch == (is_recipe ? 1 : 2));
    CHECK(plan.precision == Precision::bfloat16);
    const bool recomputes = name.starts_with("g5") || is_recipe;
    CHECK(plan.stages[1].again == std::vector<Recomputed>(recomputes ? 6 : 0, Recomputed::full));
  }
  question.cluster = parse_cluster("2x8xa100");
  const Plan nodes = read("g7_flags_in_strings_and_variables.slurm").plan;
  CHECK(nodes.stages.size() == 4);
  CHECK(nodes.stages[0].devices == std::vector<std::vector<int>>{{0, 1}, {2, 3}});
  CHECK(nodes.stages[1].again.front() == Recomputed::full);
  question.cluster = parse_cluster("2xh100");
  question.profile.model = transformer_of(8);
  CHECK(read("megatron-fsdp-default.sh").plan.optimizer.sharding == Sharding::zero3);
  CHECK_THAT(message_of([&] { read("megatron-hybrid-pattern.sh"); }),
             ContainsSubstring("M Mamba, * attention"));
  question.cluster = parse_cluster("4xh100");
  CHECK_THAT(message_of([&] { read("megatron-first-last-all.sh"); }),
             ContainsSubstring("no middle layers remain for 2 middle pipeline stages"));
}

TEST_CASE("all variables without value that the plan needs are named at once, with their remedy") {
  const std::string script =
      "N=$((NODES * 8))\nTP=$1\nFLAGS=\"--tensor-model-parallel-size $TP \\\n"
      " --pipeline-model-parallel-size $PP --micro-batch-size 1 --lr $LR --hidden-size $H\"\n"
      "torchrun --nproc_per_node 8 --nnodes $NODES pretrain_gpt.py $FLAGS --global-batch-size $N "
      "$EXTRA\n";
  try {
    launch(script);
    FAIL("was read");
  } catch (const Error& error) {
    CHECK(error.message() ==
          "variables have no value: TP (run.sh:2, $1, for --tensor-model-parallel-size), PP "
          "(run.sh:4, for --pipeline-model-parallel-size) and NODES (run.sh:1, for "
          "--global-batch-size)");
    CHECK(error.help() == Texts{"what only the cluster knows comes with --set TP=… --set PP=… "
                                "--set NODES=…"});
  }
  const MegatronLaunch read = launch(script, {{"TP", "2"}, {"PP", "4"}, {"NODES", "2"}});
  CHECK(read.flags.tensor == 2);
  CHECK(read.flags.pipeline == 4);
  CHECK(read.flags.nodes == 2);
  CHECK(read.flags.global_batch == 16);
  CHECK(notes_mention(read, "taken as not set: EXTRA; --set NAME=VALUE sets one"));
  CHECK(complaint(script, {{"TP", "2"}, {"NODE", "1"}}) ==
        "--set NODE=1: run.sh neither reads nor sets NODE; did you mean \"NODES\"?");
  // A value of the script's own gives way, with a word.
  const MegatronLaunch other =
      launch("PP=2\ntrain.py --pipeline-model-parallel-size $PP", {{"PP", "4"}});
  CHECK(other.flags.pipeline == 4);
  CHECK(notes_mention(other, "run.sh:1: PP is 2 there; --set PP=4 stands in its place"));
}

TEST_CASE("nodes that a script does not know are those of the cluster") {
  const MegatronLaunch read =
      launch("torchrun --nproc_per_node 8 --nnodes ${WORLD} pretrain_gpt.py --micro-batch-size 1");
  CHECK_FALSE(read.flags.nodes);
  CHECK_FALSE(read.flags.processes);
  CHECK(notes_mention(read,
                      "run.sh:1: --nnodes $WORLD is no number; --set WORLD=… says it; all "
                      "devices of the cluster are taken"));
  const auto ranks = [](const std::string& line) {
    const MegatronFlags flags = launch(line + " --micro-batch-size 1").flags;
    return flags.world.value_or(flags.processes.value_or(0) * flags.nodes.value_or(1));
  };
  CHECK(ranks("srun -N 2 --ntasks-per-node=8 python pretrain_gpt.py") == 16);
  CHECK(ranks("srun -n 16 python pretrain_gpt.py") == 16);
  CHECK(ranks("#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\nsrun python pretrain_gpt.py") == 32);
  CHECK(ranks("#SBATCH -N 4\n#SBATCH --gres=gpu:a100:8\nsrun python -m torch.distributed.launch "
              "--nproc_per_node 4 pretrain_gpt.py") == 16);
  CHECK(ranks("deepspeed --num_nodes 2 --num_gpus 4 pretrain_gpt.py") == 8);
  CHECK(ranks("mpirun -np 8 python pretrain_gpt.py") == 8);
}

TEST_CASE("what plans do not have is listed with its place, and so is what nobody knows") {
  const MegatronLaunch read = launch(
      "A=(\n  --cp-comm-type p2p\n  --lr 1e-4\n  --ddp-num-buckets 4\n  --bf16\n"
      "  --no-such-flag 3\n  --num-distributed-optimizer-instances 2\n)\n"
      "pretrain_gpt.py --micro-batch-size 1 ${A[@]}");
  CHECK(texts(read.not_modelled) == Texts{"--cp-comm-type p2p :2", "--ddp-num-buckets 4 :4",
                                          "--num-distributed-optimizer-instances 2 :7"});
  CHECK(texts(read.unknown) == Texts{"--no-such-flag 3 :6"});
  CHECK(texts(read.understood) == Texts{"--micro-batch-size 1 :9", "--lr 1e-4 :3", "--bf16 :5"});
  CHECK_THAT(complaint("pretrain_gpt.py --micro-batch-size 1 --foo 2 --bar"),
             ContainsSubstring("2 of the 3 settings of run.sh are not known"));
  CHECK(kind_of_flag("fine-grained-activation-offloading") == FlagKind::not_modelled);
  CHECK(kind_of_flag("optimizer-cpu-offload") == FlagKind::not_modelled);
  CHECK(kind_of_flag("lr-decay-style") == FlagKind::no_bearing);
  CHECK(kind_of_flag("pipline-model-parallel-size") == FlagKind::unknown);
}

TEST_CASE("dispatchers and graphs that plans have are taken, others are listed") {
  const auto of = [](const std::string& flags) {
    return launch("pretrain_gpt.py --micro-batch-size 1 " + flags);
  };
  const MegatronFlags flags =
      of("--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep "
         "--cuda-graph-impl transformer_engine --cuda-graph-modules attn moe_router moe_preprocess")
          .flags;
  CHECK(flags.dispatcher == "flex");
  CHECK(flags.flex == "hybridep");
  CHECK(flags.graphs == "transformer_engine");
  CHECK(flags.graph_scope == "attn");
  CHECK(of("--moe-token-dispatcher-type flex --moe-enable-deepep").flags.flex == "deepep");
  CHECK(of("--enable-cuda-graph --cuda-graph-scope full_iteration").flags.graph_scope ==
        "full_iteration");
  CHECK(of("--external-cuda-graph").flags.graphs == "transformer_engine");
  CHECK(texts(of("--moe-token-dispatcher-type allgather").not_modelled) ==
        Texts{"--moe-token-dispatcher-type allgather :1"});
  CHECK(texts(of("--moe-flex-dispatcher-backend ncclep").not_modelled) ==
        Texts{"--moe-flex-dispatcher-backend ncclep :1"});
  const MegatronLaunch overrides =
      of("model.cuda_graph_impl=transformer_engine model.cuda_graph_scope='[attn,moe_router]' "
         "ddp.overlap_grad_reduce=true ddp.bucket_size=1000 mixed_precision=bf16_with_mxfp8_mixed");
  CHECK(overrides.not_modelled.empty());
  CHECK(overrides.unknown.empty());
  CHECK(overrides.flags.bucket_parameters == 1000);
  CHECK(overrides.flags.bf16);
  CHECK(overrides.flags.fp8_recipe == "mxfp8");
  // Of a wrapper, and of Hydra's groups.
  const MegatronLaunch others = of("tp=2 optimizer=adamw model.tensor_model_parallel_size=4");
  CHECK(others.flags.tensor == 4);
  CHECK(others.flags.optimizer.empty());
  const MegatronLaunch in_4_bits =
      of("model.tensor_model_parallel_size=4 mixed_precision=bf16_with_nvfp4_mixed");
  CHECK(in_4_bits.flags.bf16);
  CHECK(texts(in_4_bits.unknown) == Texts{"--mixed-precision bf16_with_nvfp4_mixed :1"});
  CHECK(of("--moe-router-fusion").flags.fuses_router);
  CHECK_FALSE(of("model.moe_router_fusion=false").flags.fuses_router);
  const MegatronLaunch native = of("--cross-entropy-loss-fusion");
  CHECK(native.flags.fused_loss);
  CHECK(native.flags.loss_fusion.empty());
  CHECK(of("--cross-entropy-loss-fusion --cross-entropy-fusion-impl te").flags.loss_fusion == "te");
  CHECK(of("model.cross_entropy_loss_fusion=false model.cross_entropy_fusion_impl=te")
            .flags.fused_loss == false);
  CHECK(texts(of("--cross-entropy-fusion-impl linear").not_modelled) ==
        Texts{"--cross-entropy-fusion-impl linear :1"});
  CHECK(of("--fp8-format e4m3 --fp8-recipe mxfp8").flags.fp8_recipe == "mxfp8");
  CHECK(texts(of("--fp8-format hybrid --fp8-recipe custom").not_modelled) ==
        Texts{"--fp8-recipe custom :1"});
  CHECK(texts(of("--cuda-graph-modules mamba").not_modelled) ==
        Texts{"--cuda-graph-modules mamba :1"});
}

TEST_CASE("flags of all releases of Megatron-LM mean what they meant") {
  const auto flags = [](const std::string& line) {
    return launch("pretrain_gpt.py --micro-batch-size 1 " + line).flags;
  };
  MegatronFlags full{.microbatch = 1, .recompute = "full", .recompute_method = "uniform"};
  CHECK(flags("--checkpoint-activations") == full);
  CHECK(flags("--activations-checkpoint-method uniform") == full);
  CHECK(flags("--recompute-granularity full --recompute-method uniform") == full);
  full.recompute_layers = 2;
  CHECK(flags("--checkpoint-activations --checkpoint-num-layers 2") == full);
  full.recompute_method = "block";
  CHECK(flags("--activations-checkpoint-method block --activations-checkpoint-num-layers 2") ==
        full);
  CHECK(flags("--model-parallel-size 4").tensor == 4);
  CHECK(launch("pretrain_gpt2.py --batch-size 4 --model-parallel-size 1").flags.microbatch == 4);
  CHECK(flags("--bf16 --fp8-hybrid").fp8 == "hybrid");
  CHECK_THAT(complaint("pretrain_gpt.py --micro-batch-size 1 --enable-1f1b-v"),
             ContainsSubstring("1F1B folded into a V"));
}

TEST_CASE("--recompute-activations stands over a granularity, wherever it is") {
  const std::string start = "p.py --micro-batch-size 1 ";
  CHECK(launch(start + "--recompute-activations --recompute-granularity full").flags.recompute ==
        "selective");
  CHECK(launch(start + "--recompute-granularity full --recompute-activations").flags.recompute ==
        "selective");
  for (const std::string name : {"adam", "adamw", "fusedadamw"}) {
    CHECK(
        imported("megatron", start + "--num-layers 8 --optimizer " + name, question_of(8, "1xh100"))
            .optimizer.kind == OptimizerKind::adamw);
  }
}

TEST_CASE("zero-bubble's flags choose its schedules") {
  const auto plan = [](const std::string& flags) {
    return imported("megatron",
                    "--num-layers 8 --pipeline-model-parallel-size 2 --micro-batch-size 1 "
                    "--global-batch-size 8 " +
                        flags,
                    question_of(8, "2xh100"));
  };
  CHECK(plan("--enable-zero-bubble").schedule.name == "zb-1p");
  CHECK(plan("--enable-zero-bubble --zero-bubble-max-pending-backward 4").schedule.name == "zb-2p");
  const Plan folded = plan("--enable-zero-bubble --zero-bubble-v-schedule");
  CHECK(folded.schedule == ScheduleChoice{.name = "zb-v", .virtual_stages = 2});
  CHECK(sizes_of(folded) == std::vector{3, 2, 2, 3});
  CHECK(folded.stages[0].devices == folded.stages[3].devices);
  CHECK(folded.stages[1].devices == folded.stages[2].devices);
  CHECK(plan("--zero-bubble-v-schedule --zero-bubble-v-schedule-mem-setup half").schedule.name ==
        "v-half");
  CHECK(plan("--num-seq-splits 2").schedule ==
        ScheduleChoice{.name = "seq1f1b", .sequence_chunks = 2});
}

TEST_CASE("ms-swift, slime, verl and NeMo have words and defaults of their own") {
  const MegatronLaunch swift = launch(
      "NPROC_PER_NODE=4 megatron sft --tensor_model_parallel_size 2 --sequence_parallel true "
      "--use_distributed_optimizer false --max_length 2048 --train_type lora");
  CHECK(swift.flags == MegatronFlags{.tensor = 2,
                                     .sequence_parallel = true,
                                     .microbatch = 1,
                                     .global_batch = 16,
                                     .sequence = 2048,
                                     .processes = 4,
                                     .recompute = "selective",
                                     .bf16 = true});
  CHECK(texts(swift.not_modelled) == Texts{"--train-type lora :1"});
  CHECK(notes_mention(swift, "ms-swift sets by itself: bf16, --micro_batch_size 1"));
  const MegatronLaunch slime = launch(
      "A=(--tensor-model-parallel-size 2 --use-dynamic-batch-size)\n"
      "ray job submit --address=x -- python3 train.py --actor-num-nodes 2 "
      "--actor-num-gpus-per-node 8 ${A[@]} --global-batch-size 256");
  CHECK(slime.flags == MegatronFlags{.tensor = 2,
                                     .microbatch = 1,
                                     .global_batch = 256,
                                     .nodes = 2,
                                     .processes = 8,
                                     .shards_optimizer = true,
                                     .bf16 = true});
  const MegatronLaunch verl = launch(
      "python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.ppo_mini_batch_size=64 "
      "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 actor_rollout_ref.rollout.n=4 "
      "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2 "
      "actor_rollout_ref.rollout.tensor_model_parallel_size=8 trainer.n_gpus_per_node=8 "
      "trainer.nnodes=1");
  CHECK(verl.flags == MegatronFlags{.pipeline = 2,
                                    .sequence_parallel = true,
                                    .microbatch = 2,
                                    .global_batch = 256,
                                    .nodes = 1,
                                    .processes = 8,
                                    .shards_optimizer = true,
                                    .bf16 = true});
  CHECK(notes_mention(verl, "actor_rollout_ref.rollout has ranks of its own"));
  const MegatronLaunch nemo = launch(
      "python megatron_gpt_pretraining.py trainer.devices=8 trainer.num_nodes=2 "
      "trainer.precision=bf16-mixed model.pipeline_model_parallel_size=4 "
      "++model.micro_batch_size=1 "
      "model.virtual_pipeline_model_parallel_size=null model.optim.name=distributed_fused_adam");
  CHECK(nemo.flags == MegatronFlags{.pipeline = 4,
                                    .microbatch = 1,
                                    .nodes = 2,
                                    .processes = 8,
                                    .shards_optimizer = true,
                                    .optimizer = "adam",
                                    .bf16 = true});
}

TEST_CASE("recipes in YAML: anchors, merged mappings and references") {
  const std::string yaml =
      "base: &base\n  tensor_model_parallel_size: 2\n  num_layers: 8\n"
      "model:\n  <<: *base\n  num_layers: 16\n  micro_batch_size: 1\n"
      "  encoder_seq_length: ${model.max_position_embeddings}\n  max_position_embeddings: 4096\n"
      "  bf16: on\n  data:\n    seq_length: ${model.encoder_seq_length}\n";
  const MegatronFlags flags = launch(yaml, {}, "recipe.yaml").flags;
  CHECK(flags.layers == 16);
  CHECK(flags.tensor == 2);
  CHECK(flags.sequence == 4096);
  CHECK(flags.bf16);
  CHECK(message_of([&] { launch(yaml + "\n bad: [1\n", {}, "r.yaml"); }).starts_with("r.yaml:"));
  CHECK_THAT(message_of([&] {
               launch(yaml, {{"X", "1"}}, "r.yaml");
             }),
             ContainsSubstring("r.yaml neither reads nor sets X"));
  // A thousand million nodes out of nine lines.
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += concat("a", i, ": &a", i, " [");
    for (int k = 0; k < 10; ++k) bomb += concat(k > 0 ? ", " : "", "*a", i - 1);
    bomb += "]\n";
  }
  CHECK_THAT(message_of([&] { launch(bomb, {}, "r.yaml"); }), ContainsSubstring("unfolds to more"));
}

TEST_CASE("recipes in YAML: references look nothing into existence, and are computed with") {
  // Four keys at the root, one of which refers to a fifth.
  const std::string yaml =
      "ENV_VARS:\nTEST_TYPE: regular\nLAUNCHER: torchrun\nMODEL_ARGS:\n"
      "  --save: ${CHECKPOINT_SAVE_PATH}\n  --num-layers: 8\n  --micro-batch-size: 2\n";
  CHECK(launch(yaml, {}, "r.yaml").flags == MegatronFlags{.layers = 8, .microbatch = 2});
  const std::string nemo =
      "trainer:\n  num_nodes: 4\n  devices: 8\nmodel:\n  num_layers: 8\n  encoder_seq_length: "
      "4096\n"
      "  micro_batch_size: ${divide_floor:${.num_layers}, 4}\n"
      "  global_batch_size: ${multiply:${training.trainer.num_nodes}, ${trainer.devices}}\n"
      "  tensor_model_parallel_size: ${oc.decode:${oc.env:TP,2}}\n"
      "  data:\n    seq_length: ${training.model.encoder_seq_length}\n"
      "    workers: ${..num_layers}\n";
  const MegatronFlags flags = launch(nemo, {}, "r.yaml").flags;
  CHECK(flags.microbatch == 2);
  CHECK(flags.global_batch == 32);
  CHECK(flags.tensor == 2);
  CHECK(flags.sequence == 4096);
  for (const std::string unknown : {"${model.rows}", "${.rows}", "${....rows}", "${...}", "${}",
                                    "${power:2, 3}", "${divide_floor:4, 0}", "${oc.env:TP}"}) {
    INFO(unknown);
    std::string changed = nemo;
    changed.replace(changed.find("${divide_floor:${.num_layers}, 4}"), 33, unknown);
    CHECK_THAT(message_of([&] { launch(changed, {}, "r.yaml"); }),
               ContainsSubstring("a variable has no value: " + unknown));
  }
}

TEST_CASE("NeMo switches recomputation and FP8 by one member each") {
  const auto recipe = [](const std::string& members) {
    return launch("model:\n  num_layers: 8\n  micro_batch_size: 1\n" + members, {}, "r.yaml").flags;
  };
  const MegatronFlags none{.layers = 8, .microbatch = 1};
  CHECK(recipe("  activations_checkpoint_granularity: null\n"
               "  activations_checkpoint_method: block\n"
               "  activations_checkpoint_num_layers: 0\n") == none);
  CHECK(recipe("  activations_checkpoint_method: block\n  activations_checkpoint_num_layers: 2\n"
               "  activations_checkpoint_granularity: ~\n") == none);
  CHECK(launch(R"({"model": {"num_layers": 8, "micro_batch_size": 1,
                   "activations_checkpoint_method": "block",
                   "activations_checkpoint_num_layers": 2,
                   "activations_checkpoint_granularity": null}})",
               {}, "r.json")
            .flags == none);
  CHECK(launch("python pretraining.py model.num_layers=8 model.micro_batch_size=1 "
               "model.activations_checkpoint_method=uniform "
               "model.activations_checkpoint_granularity=null")
            .flags == none);
  const MegatronFlags full = recipe(
      "  activations_checkpoint_granularity: full\n  activations_checkpoint_method: block\n"
      "  activations_checkpoint_num_layers: 2\n");
  CHECK(full.recompute == "full");
  CHECK(full.recompute_layers == 2);
  CHECK(recipe("  fp8: false\n  fp8_hybrid: true\n") == none);
  CHECK(recipe("  fp8_e4m3: true\n  fp8: False\n") == none);
  CHECK(recipe("  fp8: true\n  fp8_e4m3: true\n").fp8 == "e4m3");
  CHECK(recipe("  fp8: true\n").fp8 == "hybrid");
  CHECK(recipe("  fp8: true\n  fp8_dot_product_attention: true\n").fp8_attention);
  CHECK(!recipe("  fp8: true\n  fp8_dot_product_attention: false\n").fp8_attention);
}

TEST_CASE("DeepSpeed's Megatron-LM: ZeRO, its optimizer for bf16, and degrees of its own") {
  const std::string start = "deepspeed pretrain_gpt.py --deepspeed --micro-batch-size 1 ";
  const MegatronLaunch bf16 = launch(start + "--zero-stage 0 --bf16");
  CHECK(bf16.flags.shards_optimizer);
  CHECK(notes_mention(bf16, "in bf16 its optimizer's states are divided over replicas"));
  CHECK_FALSE(launch(start + "--zero-stage 0 --fp16").flags.shards_optimizer);
  CHECK(launch(start + "--zero-stage 1 --fp16").flags.shards_optimizer);
  CHECK_THAT(complaint(start + "--zero-stage 2"),
             ContainsSubstring("DeepSpeed refuses ZeRO-2 with pipelines"));
  CHECK_THAT(complaint(start + "--zero-stage 4"), ContainsSubstring("0 to 3, found 4"));
  const std::string plain = "--micro-batch-size 1 --num-layers 8 --deepspeed --bf16 ";
  const auto sharding = [&](const std::string& more) {
    return imported("megatron", "pretrain_gpt.py " + plain + more, question_of(8, "2xh100"))
        .optimizer.sharding;
  };
  CHECK(sharding("--zero-stage 3 --no-pipeline-parallel") == Sharding::zero3);
  CHECK(sharding("--no-pipeline-parallel --zero-stage 2") == Sharding::zero2);
  const MegatronLaunch ulysses =
      launch(start + "--ds-sequence-parallel-size 4 --moe-expert-parallel-size 2");
  CHECK(ulysses.flags.context == 4);
  CHECK(ulysses.flags.expert == 2);
  CHECK(notes_mention(ulysses, "Ulysses"));
}

TEST_CASE("degrees that nobody has are refused before anything is made for each") {
  const auto imports = [](const std::string& flags) {
    return message_of([&] {
      imported("megatron", "p.py --num-layers 8 --micro-batch-size 1 " + flags,
               question_of(8, "2xh100"));
    });
  };
  CHECK_THAT(imports("--pipeline-model-parallel-size 900000000"),
             ContainsSubstring("expected at most 1024 stages"));
  CHECK_THAT(imports("--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank "
                     "900000000"),
             ContainsSubstring("of 900000000 virtual stages"));
}

TEST_CASE("the sequence is the language model's, and encoder-decoders are refused") {
  const std::string start = "pretrain.py --micro-batch-size 1 ";
  const MegatronLaunch images =
      launch(start + "--seq-length 256 --decoder-seq-length 4096 --img-h 224");
  CHECK(images.flags.sequence == 4096);
  CHECK(notes_mention(images, "--seq-length 256 is the encoder's"));
  CHECK(launch(start + "--encoder-seq-length 512").flags.sequence == 512);
  CHECK(launch(start + "--encoder-seq-length 512 --seq-length 1024").flags.sequence == 1024);
  CHECK_THAT(complaint(start + "--encoder-num-layers 12 --decoder-num-layers 12"),
             ContainsSubstring("plans have no encoders beside decoders"));
  const auto degree = [&](const std::string& value) {
    return imported("megatron",
                    start + "--num-layers 8 --bf16 --expert-tensor-parallel-size " + value,
                    question_of(8, "2xh100"))
        .parallelism;
  };
  CHECK(degree("1") == Parallelism{});
  CHECK_THAT(message_of([&] { degree("2"); }), ContainsSubstring("has no experts"));
}

TEST_CASE("of several starts, the one that trains is meant, and different ones are refused") {
  const std::string convert = "python convert.py --target-tensor-model-parallel-size 2 --load x\n";
  const std::string train = "torchrun pretrain_gpt.py --micro-batch-size 1 --num-layers ";
  CHECK(launch(convert + train + "8").flags.layers == 8);
  CHECK(launch(train + "8\n" + train + "8 --lr 2").flags.layers == 8);
  CHECK_THAT(complaint(train + "8\n" + train + "16"),
             ContainsSubstring("starts 2 different trainings: run.sh:1"));
  CHECK_THAT(
      complaint("N=$(cat f)\nif [ $N = 1 ]; then A=\"--num-layers 8\"; fi\n"
                "pretrain_gpt.py --micro-batch-size 1 $A"),
      ContainsSubstring("a variable has no value: N (run.sh:1, $(cat f), for --num-layers)"));
  CHECK(notes_mention(launch("python tools/run_text_generation_server.py --micro-batch-size 1"),
                      "run_text_generation_server.py may not train"));
  // A backslash in front of a comment, or none, ends a command too early.
  const MegatronLaunch broken =
      launch("pretrain_gpt.py --num-layers 8 \\ # eight\n --micro-batch-size 1");
  CHECK(broken.flags == MegatronFlags{.layers = 8, .microbatch = 1});
  CHECK(notes_mention(broken, "run.sh:2: --micro-batch-size … is read with the command above"));
  // A file of settings alone starts nothing.
  const MegatronLaunch settings =
      launch("PARALLEL=(--tensor-model-parallel-size 2)\nBATCH=\"--micro-batch-size 4\"");
  CHECK(settings.flags == MegatronFlags{.tensor = 2, .microbatch = 4});
}

TEST_CASE("a log may have both the layout and the virtual stages that follow from it") {
  const auto log = [](const std::string& chunks) {
    return "------- arguments -------\n  pipeline_model_parallel_layout ... Ett|t*2|tt|ttL\n"
           "  pipeline_model_parallel_size ... 2\n  micro_batch_size ... 1\n  global_batch_size "
           "... 8\n  num_layers ... 8\n"
           "  virtual_pipeline_model_parallel_size ... " +
           chunks + "\n----- end of arguments -----\n";
  };
  const auto sizes = [&](const std::string& chunks) {
    return sizes_of(imported("megatron", log(chunks), question_of(8, "2xh100")));
  };
  CHECK(sizes("2") == std::vector{3, 2, 2, 3});
  CHECK_THAT(message_of([&] { sizes("4"); }), ContainsSubstring("but the layout has 2 stages for"));
}

TEST_CASE("GPT-NeoX: its YAML is JSON with comments, its words and switches are DeepSpeed's") {
  const auto neox = [](const std::string& members, const std::string& file = "7B.yml") {
    return launch("# a run\n{\n  \"model_parallel_size\": 2,  # of 8\n" + members +
                      "  \"train_micro_batch_size_per_gpu\": 4,\n"
                      "  \"gradient_accumulation_steps\": 8, \"num_layers\": 8,\n}\n",
                  {}, file);
  };
  const MegatronLaunch fp16 = neox(
      "  \"pipe_parallel_size\": 2, \"zero_optimization\": {\"stage\": 1},\n"
      "  \"fp16\": {\"enabled\": true, \"loss_scale\": 0},\n"
      "  \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 1e-4}},\n");
  CHECK(fp16.flags == MegatronFlags{.layers = 8,
                                    .pipeline = 2,
                                    .tensor = 2,
                                    .microbatch = 4,
                                    .accumulation = 8,
                                    .shards_optimizer = true,
                                    .zero_stage = 1,
                                    .optimizer = "adam",
                                    .fp16 = true});
  CHECK(fp16.unknown.empty());
  // No pipeline, or one of 0 ranks, takes ZeRO-2; one of a rank does not.
  const std::string zero2 =
      "  \"zero_optimization\": {\"stage\": 2}, \"precision\": \"bfloat16\",\n";
  CHECK(neox("  \"pipe_parallel_size\": 0,\n" + zero2).flags.zero_stage == 2);
  CHECK(neox("  \"pipe_parallel_size\": 0,\n" + zero2).flags.bf16);
  CHECK_THAT(message_of([&] { neox("  \"pipe_parallel_size\": 1,\n" + zero2); }),
             ContainsSubstring("zero_optimization.stage: DeepSpeed refuses ZeRO-2 with pipelines"));
  const MegatronLaunch bf16 =
      neox("  \"pipe_parallel_size\": 1, \"fp16\": {\"type\": \"bfloat16\", \"enabled\": True},\n");
  CHECK(bf16.flags.bf16);
  CHECK_FALSE(bf16.flags.fp16);
  CHECK(bf16.flags.shards_optimizer);
  CHECK(notes_mention(neox("  \"pipe_parallel_size\": 1,\n"), "GPT-NeoX sets by itself: fp32"));
}

TEST_CASE("Primus: what a recipe leaves open is in its modules' own YAML") {
  const std::string recipe =
      "exp_name: mine\nmodules:\n  pre_trainer:\n    framework: megatron\n    overrides:\n"
      "      tensor_model_parallel_size: 2\n      global_batch_size: 64\n      fp8: hybrid\n";
  const MegatronLaunch read = launch(recipe + "      sequence_parallel: 1\n", {}, "run.yaml");
  CHECK(read.flags == MegatronFlags{.tensor = 2,
                                    .sequence_parallel = true,
                                    .microbatch = 2,
                                    .global_batch = 64,
                                    .shards_optimizer = true,
                                    .bf16 = true,
                                    .fp8 = "hybrid"});
  CHECK(notes_mention(read, "Primus sets by itself: bf16, the distributed optimizer"));
  CHECK(read.unknown.empty());
  CHECK(launch(recipe, {}, "run.yaml").flags.sequence_parallel);
  CHECK_FALSE(
      launch(recipe + "      sequence_parallel: 0\n", {}, "run.yaml").flags.sequence_parallel);
  CHECK_FALSE(launch(recipe + "      use_distributed_optimizer: false\n", {}, "run.yaml")
                  .flags.shards_optimizer);
}

TEST_CASE("mcore_adapter, of LLaMA-Factory and ROLL: words of Hugging Face's trainer, and roles") {
  const MegatronLaunch factory = launch(
      "stage: sft\nfinetuning_type: full\ncutoff_len: 2048\nper_device_train_batch_size: 2\n"
      "gradient_accumulation_steps: 4\nbf16: true\npipeline_model_parallel_size: 2\n"
      "recompute_granularity: full\n",
      {}, "sft.yaml");
  CHECK(factory.flags == MegatronFlags{.pipeline = 2,
                                       .microbatch = 2,
                                       .sequence = 2048,
                                       .accumulation = 4,
                                       .recompute = "full",
                                       .recompute_method = "uniform",
                                       .recompute_layers = 1,
                                       .bf16 = true});
  CHECK(factory.unknown.empty());
  CHECK(factory.not_modelled.empty());
  const std::string strategy = "  strategy_args:\n    strategy_name: ";
  const auto roll = [&](const std::string& trainer) {
    return launch(
        "prompt_length: 1024\nresponse_length: 3072\nactor_train:\n  model_args:\n"
        "    dtype: bf16\n  training_args:\n    per_device_train_batch_size: 1\n" +
            strategy + trainer +
            "\n    strategy_config:\n      tensor_model_parallel_size: 2\n"
            "  device_mapping: list(range(0,16))\nactor_infer:\n  model_args:\n"
            "    dtype: fp16\nreference:\n" +
            strategy +
            "megatron_infer\n    strategy_config:\n      tensor_model_parallel_size: 8\n",
        {}, "roll.yaml");
  };
  CHECK(roll("megatron_train").flags ==
        MegatronFlags{.tensor = 2, .microbatch = 1, .sequence = 4096, .world = 16, .bf16 = true});
  const MegatronLaunch two = launch(
      "actor_train:\n  training_args:\n    per_device_train_batch_size: 1\n"
      "  strategy_args:\n    strategy_name: megatron_train\n    strategy_config:\n"
      "      tensor_model_parallel_size: 2\n  device_mapping: \"[4, 5]\"\n",
      {}, "roll.yaml");
  CHECK(two.flags == MegatronFlags{.tensor = 2, .microbatch = 1, .world = 2, .bf16 = true});
  CHECK_THAT(message_of([&] { roll("deepspeed_train"); }),
             ContainsSubstring("strategy_name: deepspeed_train: another program trains here"));
}

TEST_CASE("what generates has a precision of its own, and ranks that do not train") {
  const std::string verl =
      "python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 "
      "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2 "
      "actor_rollout_ref.rollout.dtype=float16";
  CHECK(launch(verl).flags.bf16);
  CHECK_FALSE(launch(verl).flags.fp16);
  const auto apart = [](const std::string& resources, int nodes) {
    return launch(concat("policy:\n  train_micro_batch_size: 1\n  generation:\n    colocated:\n"
                         "      enabled: false\n      resources:\n",
                         resources,
                         "  megatron_cfg:\n    tensor_model_parallel_size: 2\n"
                         "cluster:\n  gpus_per_node: 8\n  num_nodes: ",
                         nodes, "\n"),
                  {}, "r.yaml");
  };
  CHECK(apart("        num_nodes: 1\n", 4).flags.nodes == 3);
  CHECK(apart("        gpus_per_node: 2\n", 1).flags.processes == 6);
}

TEST_CASE("DeepSpeed's configuration beside the script says the stage of ZeRO") {
  const TemporaryFolder folder;
  folder.file("ds.json", "{\"zero_optimization\": {\"stage\": 1}}");
  CHECK(launch("deepspeed pretrain_gpt.py --deepspeed --deepspeed_config ds.json --fp16 "
               "--micro-batch-size 1",
               {}, (folder.path() / "run.sh").string())
            .flags.shards_optimizer);
  CHECK(launch("p.py --micro-batch-size 1 --enable-zbh1-pipeline").flags.schedule == "zb-h1");
}
