// Megatron-LM's flags, and the splits its users asked about.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "planner/costs/stage_recompute.hpp"
#include "planner/interop/importers/megatron_layout.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/interop/importers/questions.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

const std::string batch = " --micro-batch-size 1 --global-batch-size 64";

Plan from_flags(const std::string& flags, int blocks, const std::string& cluster) {
  return imported("megatron", flags + batch, question_of(blocks, cluster));
}

std::string refusal(const std::string& flags, int blocks, const std::string& cluster) {
  return message_of([&] { from_flags(flags, blocks, cluster); });
}

std::vector<int> layers_of(const std::vector<MegatronStage>& stages) {
  std::vector<int> layers;
  for (const MegatronStage& stage : stages) layers.push_back(stage.layers);
  return layers;
}

std::string layout_complaint(const std::string& layout) {
  return message_of([&] { read_megatron_layout(layout); });
}

}  // namespace

TEST_CASE("Megatron-LM's flags: stages, ranks, batch and optimizer") {
  const Plan plan =
      imported("megatron",
               "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py \\\n"
               "  --num-layers 16 --pipeline-model-parallel-size 4 \\\n"
               "  --tensor-model-parallel-size=2  # a comment --num-layers 99\n"
               "  --micro-batch-size 3 --global-batch-size 48 --seq-length 8 --bf16 \\\n"
               "  --optimizer adam --lr 1e-4 --use-distributed-optimizer ${MORE[@]}",
               question_of(16, "2x8xh100"));
  CHECK(sizes_of(plan) == std::vector{5, 4, 4, 5});
  CHECK(plan.schedule == ScheduleChoice{.name = "1f1b"});
  CHECK(plan.stages[1].devices == std::vector<std::vector<int>>{{4, 5}, {6, 7}});
  CHECK(plan.batch == Batch{.global = 48, .microbatch = 6, .microbatches = 8, .sequence = 8});
  CHECK(plan.precision == Precision::bfloat16);
  CHECK(plan.optimizer == OptimizerChoice{OptimizerKind::adamw, Sharding::zero1});
}

TEST_CASE("Megatron-LM's flags are the same in a shell, YAML and JSON") {
  const std::string shell =
      "ARGS=(--num-layers 8 --pipeline-model-parallel-size 2\n --micro-batch-size 2 --bf16)";
  const std::string yaml =
      "MODEL_ARGS:\n  --num-layers: 8  # eight\n  --pipeline-model-parallel-size: 2\n"
      "  --micro-batch-size: 2\n  --bf16: true\n  --fp16: false\n";
  const std::string json =
      R"({"args": {"num_layers": 8, "pipeline_model_parallel_size": 2, "micro_batch_size": "2",
          "bf16": true, "fp16": false}})";
  const MegatronFlags flags = read_megatron_flags(shell, "f");
  CHECK(flags == MegatronFlags{.layers = 8, .pipeline = 2, .microbatch = 2, .bf16 = true});
  CHECK(read_megatron_flags(yaml, "f") == flags);
  CHECK(read_megatron_flags(json, "f") == flags);
  const std::string layout = "E|t*3|(tt|)*2L";
  for (const std::string& quoted : {"--pipeline-model-parallel-layout '" + layout + "'",
                                    "--pipeline-model-parallel-layout " + layout,
                                    "--pipeline-model-parallel-layout: \"\\\"" + layout + "\\\"\"",
                                    R"({"pipeline_model_parallel_layout": ")" + layout + "\"}"}) {
    CHECK(read_megatron_flags(quoted, "f").layout == layout);
  }
}

TEST_CASE("YAML: switches are yes and no, too, and a list is on one line or several") {
  const std::string yaml =
      "num_layers: 8\nmicro_batch_size: 2\nbf16: yes\nfp16: off\nseq_length: ~\n"
      "pipeline_model_parallel_size: 2\npipeline_model_parallel_layout:";
  const MegatronFlags flags =
      read_megatron_flags(yaml + " [[embedding, decoder], ['decoder', \"loss\"]]  # two\n", "f");
  CHECK(flags.bf16);
  CHECK_FALSE(flags.fp16);
  CHECK(read_megatron_layout(flags.layout) == read_megatron_layout("Et|tL"));
  const std::string list = "\n  # two\n  - [embedding, decoder]\n  - [decoder, loss]\n";
  CHECK(read_megatron_flags(yaml + list, "f") == flags);
}

TEST_CASE("tensor-parallel peers divide the attention heads, whatever else they share") {
  const std::string flags = "--pipeline-model-parallel-size 2 --tensor-model-parallel-size ";
  CHECK_THAT(
      refusal(flags + "3", 8, "6xh100"),
      ContainsSubstring("3 tensor-parallel peers of stage 0 cannot share 4 attention heads"));
  CHECK(refusal(flags + "4", 8, "8xh100").empty());
}

TEST_CASE("the arguments that Megatron-LM dumps into its log are its flags") {
  const std::string log =
      "[default0]:------------------------ arguments ------------------------\n"
      "[default0]:  bf16 ............................................ True\n"
      "[default0]:  context_parallel_size ........................... 1\n"
      "[default0]:  fp16 ............................................ False\n"
      "[default0]:  global_batch_size ............................... 16\n"
      "[default0]:  micro_batch_size ................................ 2\n"
      "[default0]:  mtp_num_layers .................................. None\n"
      "[default0]:  num_layers ...................................... 8\n"
      "[default0]:  num_layers_per_virtual_pipeline_stage ........... 2\n"
      "[default0]:  optimizer ....................................... adam\n"
      "[default0]:  pipeline_model_parallel_size .................... 2\n"
      "[default0]:  seq_length ...................................... 8\n"
      "[default0]:  use_distributed_optimizer ....................... True\n"
      "[default0]:  use_torch_fsdp2 ................................. False\n"
      "[default0]:  virtual_pipeline_model_parallel_size ............ 2\n"
      "[default0]:  world_size ...................................... 4\n"
      "[default0]:-------------------- end of arguments ---------------------\n"
      " iteration 1/ 5 | elapsed time per iteration (ms): 9.9 | num_layers ... 77 |\n";
  const Plan plan = imported("megatron", log, question_of(8, "4xh100"));
  CHECK(plan == imported("megatron",
                         "--num-layers 8 --pipeline-model-parallel-size 2 --world-size 4 "
                         "--num-layers-per-virtual-pipeline-stage 2 --micro-batch-size 2 --bf16 "
                         "--global-batch-size 16 --seq-length 8 --optimizer adam "
                         "--use-distributed-optimizer",
                         question_of(8, "4xh100")));
  CHECK(plan.stages.size() == 4);
  std::string wrong = log;
  wrong.replace(wrong.find("size ........................... 1") + 32, 2, " 4");
  CHECK_THAT(message_of([&] { imported("megatron", wrong, question_of(8, "4xh100")); }),
             ContainsSubstring("x 4 context-parallel peers, not 4"));
}

TEST_CASE("prediction modules of Megatron-LM and of the model must agree") {
  const std::string flags = "--num-layers 8 --pipeline-model-parallel-size 2";
  CHECK_THAT(refusal(flags + " --mtp-num-layers 1", 8, "2xh100"),
             ContainsSubstring("--mtp-num-layers is 1, but the model \"deep\" has 0"));
}

TEST_CASE("Megatron-LM interleaves 16 layers on 4 ranks in 2 chunks as its help says") {
  // GPU 0 has [1, 2] [9, 10], GPU 1 [3, 4] [11, 12], …
  for (const std::string virtual_flag : {" --num-layers-per-virtual-pipeline-stage 2",
                                         " --num-virtual-stages-per-pipeline-rank 2"}) {
    const Plan plan =
        from_flags("--num-layers 16 --pipeline-model-parallel-size 4" + virtual_flag, 16, "4xh100");
    CHECK(plan.schedule == ScheduleChoice{.name = "interleaved", .virtual_stages = 2});
    CHECK(sizes_of(plan) == std::vector{3, 2, 2, 2, 2, 2, 2, 3});
    CHECK(plan.stages[5].devices == plan.stages[1].devices);
    CHECK(plan.stages[5].layers == LayerRange{11, 13});  // layer 0 is the embedding
  }
}

TEST_CASE("a refused split says how many layers releases without the check would train") {
  const auto help = [](const std::string& flags, int blocks, const std::string& cluster) {
    try {
      from_flags(flags, blocks, cluster);
    } catch (const Error& error) {
      return error.help().front();
    }
    return std::string();
  };
  CHECK(help("--pipeline-model-parallel-size 4", 30, "4xh100") ==
        "releases that do not check this train 28 of the 30 layers, and say nothing");
  for (const std::string chunks :
       {"--num-virtual-stages-per-pipeline-rank 2", "--num-layers-per-virtual-pipeline-stage 2"}) {
    CHECK(help("--pipeline-model-parallel-size 16 " + chunks, 80, "16xh100") ==
          "releases that do not check this train 64 of the 80 layers, and say nothing");
  }
  CHECK(help("--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1", 30, "4xh100")
            .starts_with("say --decoder-first"));
}

TEST_CASE("splits that Megatron-LM asserts against are refused with its reason") {
  CHECK(refusal("--pipeline-model-parallel-size 4", 30, "4xh100") ==
        "plan.txt: Megatron-LM refuses: 30 layers do not divide evenly over 4 pipeline stages");
  CHECK(refusal("--pipeline-model-parallel-size 16 --num-virtual-stages-per-pipeline-rank 2", 80,
                "16xh100") ==
        "plan.txt: Megatron-LM refuses: the 5 layers of pipeline rank 0 do not divide into 2 "
        "virtual stages");
  CHECK(
      refusal("--pipeline-model-parallel-size 16 --num-layers-per-virtual-pipeline-stage 2", 80,
              "16xh100") ==
      "plan.txt: Megatron-LM refuses: the 5 layers of a pipeline stage do not divide into virtual "
      "stages of 2");
  for (const auto& [layers, ranks] : {std::pair{42, 16}, {38, 8}, {40, 16}}) {
    CHECK(refusal(concat("--pipeline-model-parallel-size ", ranks), layers, "16xh100")
              .starts_with("plan.txt: Megatron-LM refuses"));
  }
  // Once trained silently as a model of two layers.
  CHECK(refusal("--pipeline-model-parallel-size 1 --decoder-last-pipeline-num-layers 2", 8,
                "1xh100") ==
        "plan.txt: Megatron-LM refuses: 8 layers do not divide evenly over 1 pipeline stage with 2 "
        "on the last");
  CHECK_THAT(refusal("--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 6 "
                     "--decoder-last-pipeline-num-layers 2",
                     8, "4xh100"),
             ContainsSubstring("no middle layers remain for 2 middle pipeline stages"));
}

TEST_CASE("the same layers fit with uneven ends, counted ends, or a layout") {
  const auto flags = [](int layers, int ranks, const std::string& more) {
    return from_flags(
        concat("--num-layers ", layers, " --pipeline-model-parallel-size ", ranks, " --", more),
        layers, concat(ranks, "xh100"));
  };
  CHECK(sizes_of(flags(30, 4,
                       "account-for-embedding-in-pipeline-split "
                       "--account-for-loss-in-pipeline-split")) == std::vector{8, 8, 8, 8});
  CHECK(sizes_of(flags(30, 4, "decoder-first-pipeline-num-layers 6")) == std::vector{7, 8, 8, 9});
  const Plan even = flags(80, 16, "num-virtual-stages-per-pipeline-rank 5");
  CHECK(sizes_of(even).size() == 80);
  const Plan split = flags(42, 16, "pipeline-model-parallel-layout 'Et*2|(ttt|)*11(tt|)*3tL'");
  CHECK(sizes_of(split).size() == 16);
}

TEST_CASE("a layout is unrolled as Megatron-LM does it") {
  CHECK(layers_of(read_megatron_layout("E|t*3|(t|)*2,tt|L")) == std::vector{0, 3, 1, 1, 2, 0});
  const std::vector<MegatronStage> stages = read_megatron_layout("Et*3|(tt|)*29,L");
  REQUIRE(stages.size() == 31);
  CHECK(stages.front() == MegatronStage{.embedding = true, .layers = 3});
  CHECK(stages[29] == MegatronStage{.layers = 2});
  CHECK(stages.back() == MegatronStage{.layers = 0, .loss = true});
  CHECK(layers_of(read_megatron_layout("Et*12|*2L")) == std::vector{12, 0, 0});  // "|*2" is "||"
  CHECK(layers_of(read_megatron_layout("E(t*2|t)*2|L")) == std::vector{2, 3, 1, 0});
}

TEST_CASE("a layout may be a list, too") {
  const std::string list = "[['embedding', 'decoder'], ['decoder', 'decoder'], ['loss']]";
  CHECK(read_megatron_layout(list) == read_megatron_layout("Et|tt|L"));
  const std::string json =
      R"({"pipeline_model_parallel_layout": [["embedding", "decoder"], ["decoder", "loss"]]})";
  CHECK(read_megatron_layout(read_megatron_flags(json, "f").layout) ==
        read_megatron_layout("Et|tL"));
  CHECK(layout_complaint("[[\"decode\"]]").find("expected embedding, decoder") !=
        std::string::npos);
}

TEST_CASE("a layout that Megatron-LM would not take is refused") {
  CHECK(layout_complaint("tt|L") ==
        "the layout must begin with its one E (embedding), as Megatron-LM asserts");
  CHECK(layout_complaint("Ett|t") ==
        "the layout must end with its one L (loss), as Megatron-LM asserts");
  CHECK(layout_complaint("Et|EtL").starts_with("the layout must begin"));
  CHECK(layout_complaint("Et|mt|L").find("behind an m (multi-token prediction)") !=
        std::string::npos);
  CHECK(layout_complaint("Et|m|mL").find("m (multi-token prediction) in several stages") !=
        std::string::npos);
  CHECK(layout_complaint("Et|xL").starts_with("the layout has \"x\""));
  CHECK(layout_complaint("E((t)*2|L").starts_with("the layout has \"(\""));
  CHECK(layout_complaint("Et*0L") == "the layout repeats something zero times");
  CHECK(layout_complaint("Et*999999999L").find("more than") != std::string::npos);
  CHECK(refusal("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|t|tL'", 3,
                "2xh100")
            .find("3 stages, which is no multiple") != std::string::npos);
  CHECK(refusal("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|tL'", 3,
                "2xh100")
            .find("has 2 transformer layers, but there are 3") != std::string::npos);
}

TEST_CASE("standalone embedding and loss are stages, and so are empty ones") {
  const std::string ranks = "--pipeline-model-parallel-size ";
  const Plan plan =
      from_flags(ranks + "4 --pipeline-model-parallel-layout 'E|t*3|tt|L'", 5, "4xh100");
  CHECK(sizes_of(plan) == std::vector{1, 3, 2, 1});
  const std::string empty = ranks + "2 --pipeline-model-parallel-layout 'Et*5||t|L'" + batch;
  const ImportedPlan imported =
      import_plan(plan_importer("megatron"), empty, "plan.txt", question_of(6, "2xh100"));
  CHECK(sizes_of(imported.plan) == std::vector{6, 0, 1, 1});
  CHECK(imported.plan.stages[1].layers == LayerRange{6, 6});
  CHECK(imported.notes ==
        std::vector<std::string>{"stage 1 has no layers, and only passes on what it gets"});
  CHECK(sizes_of(from_flags(ranks + "6 --pipeline-model-parallel-layout 'E|t|||t|L'", 2,
                            "6xh100")) == std::vector{1, 1, 0, 0, 1, 1});
}

TEST_CASE("multi-token prediction stands where a layout has it") {
  Transformer transformer = *builtin_model("tiny-gpt").transformer;
  const auto sizes = [&](int modules, int blocks, int ranks, const std::string& layout) {
    transformer.prediction_modules = modules;
    const std::string cluster = concat(ranks, "xh100");
    PlanQuestion question = question_of(blocks, cluster);
    question.profile.model = make_transformer("deep", transformer, blocks, 8);
    const std::string flags =
        concat("--pipeline-model-parallel-size ", ranks, " --mtp-num-layers ", modules,
               layout.empty() ? "" : " --pipeline-model-parallel-layout '" + layout + "'", batch);
    return sizes_of(imported("megatron", flags, question));
  };
  using Sizes = std::vector<int>;
  // Megatron-LM's own tests.
  CHECK(sizes(1, 14, 8, "Et*2|(tt|)*5t|tmL") == Sizes{3, 2, 2, 2, 2, 2, 1, 3});
  CHECK(sizes(1, 14, 2, "Et*7|t*7mL") == Sizes{8, 9});
  // DeepSeek-V3 on 16 ranks in 2 chunks: prediction on rank 14, the loss on rank 15.
  Sizes deepseek(32, 2);
  deepseek.front() = 4;
  deepseek[30] = deepseek[31] = 1;
  CHECK(sizes(1, 61, 16, "Et*3|(tt|)*29,m|L") == deepseek);
  // Several modules, apart from the loss and from the layers, behind an empty stage.
  CHECK(sizes(2, 4, 4, "Ett|tt|mm|L") == Sizes{3, 2, 2, 1});
  CHECK(sizes(2, 3, 5, "Ett||tm*2||L") == Sizes{3, 0, 3, 0, 1});
  CHECK(sizes(1, 3, 1, "Et*3mL") == Sizes{6});
  // What is known of them otherwise is said.
  const auto notes = [&](const std::string& layout) {
    PlanQuestion question = question_of(3, "4xh100");
    transformer.prediction_modules = 1;
    question.profile.model = make_transformer("deep", transformer, 3, 8);
    const std::string flags =
        "--pipeline-model-parallel-size 4 --mtp-num-layers 1 --pipeline-model-parallel-layout '" +
        layout + "'" + batch;
    return import_plan(plan_importer("megatron"), flags, "plan.txt", question).notes;
  };
  CHECK(notes("Et|t|t|mL").empty());
  REQUIRE(notes("Et|tt|m|L").size() == 1);
  CHECK(notes("Et|tt|m|L").front().starts_with("modules of multi-token prediction"));
  // Without a layout they are with the loss.
  CHECK(sizes(1, 4, 2, "") == Sizes{3, 4});
  const auto complaint = [&](int modules, int ranks, const std::string& layout) {
    return message_of([&] { sizes(modules, 4, ranks, layout); });
  };
  CHECK(complaint(1, 2, "Et*4|L") ==
        "plan.txt: Megatron-LM refuses: the layout has 0 modules of multi-token prediction (m), "
        "but --mtp-num-layers is 1");
  CHECK(complaint(1, 2, "Etttt|m||L") ==
        "plan.txt: Megatron-LM refuses: multi-token prediction must be in the last virtual stage "
        "of its rank, and stage 1 of 4 is none of the last 2");
  // On the first rank, in its last virtual stage (megatron-core 0.19.2).
  CHECK(sizes(1, 4, 2, "Et*4m|L") == Sizes{6, 1});
  CHECK(sizes(1, 2, 2, "Et|t|m|L") == Sizes{2, 1, 1, 1});
}

TEST_CASE("flags that contradict each other, or that plans have no words for, are refused") {
  const std::string two = "--pipeline-model-parallel-size 2 ";
  const auto complaint = [&](const std::string& flags) {
    return refusal(two + flags, 8, "2xh100");
  };
  const auto mentions = [&](const std::string& flags, const std::string& words) {
    INFO(flags << ": " << complaint(flags));
    return complaint(flags).find(words) != std::string::npos;
  };
  CHECK(mentions("--num-layers 9", "--num-layers is 9, but the model \"deep\" has 8"));
  CHECK(mentions("--decoder-first-pipeline-num-layers 3 --account-for-loss-in-pipeline-split",
                 "beside --decoder-first-"));
  CHECK(
      mentions("--pipeline-model-parallel-layout 'Et*4|t*4L' --num-virtual-stages-per-pipeline-"
               "rank 1",
               "says all of it"));
  CHECK(
      mentions("--num-layers-per-virtual-pipeline-stage 2 "
               "--num-virtual-stages-per-pipeline-rank 2",
               "say the same in two ways"));
  CHECK(
      mentions("--num-virtual-stages-per-pipeline-rank 2 --decoder-first-pipeline-num-layers 2 "
               "--decoder-last-pipeline-num-layers 6",
               "a division by zero: of two pipeline ranks both sizes are said"));
  CHECK_FALSE(mentions(
      "--num-virtual-stages-per-pipeline-rank 2 --decoder-first-pipeline-num-layers 2", "zero"));
  CHECK(mentions("--context-parallel-size 2", "2 pipeline ranks of 1 tensor-parallel x 2 context"));
  CHECK_FALSE(mentions("--context-parallel-size 1", "context"));
  CHECK(mentions("--hierarchical-context-parallel-sizes 2", "in several levels"));
  CHECK(mentions("--expert-model-parallel-size 2", "has no experts"));
  CHECK(mentions("--use-megatron-fsdp --data-parallel-sharding-strategy some",
                 "expected no_shard, optim, optim_grads and optim_grads_params"));
  CHECK(exit_code_of([&] {
          from_flags(two + "--use-megatron-fsdp --data-parallel-sharding-strategy some", 8,
                     "2xh100");
        }) == 3);
  CHECK(mentions("--bf16=4", "takes no value such as \"4\""));
  CHECK(mentions("--recompute-granularity some", "expected full or selective"));
  CHECK(mentions("--recompute-granularity full --recompute-method some",
                 "--recompute-method some: expected uniform or block"));
  CHECK(mentions("--recompute-granularity full", "needs --recompute-method uniform or block"));
  CHECK(mentions("--recompute-granularity selective --recompute-method block",
                 "refuses --recompute-method beside --recompute-granularity selective"));
  CHECK(mentions("--use-torch-fsdp2", "beside --pipeline-model-parallel-size 2"));
  const std::string fully_sharded = "--use-torch-fsdp2 --pipeline-model-parallel-size 1 ";
  CHECK(complaint(fully_sharded).empty());
  CHECK(mentions(fully_sharded + "--use-distributed-optimizer", "--use-distributed-optimizer"));
  CHECK(mentions(fully_sharded + "--fp16", "beside --fp16"));
  CHECK(mentions("--fp16 --bf16", "at once"));
  CHECK(mentions("--num-layers eight", "plan.txt:1:47: --num-layers: expected an integer >= 1"));
  CHECK(mentions("--num-layers $LAYERS", "a variable has no value: LAYERS (plan.txt:1, for "));
  CHECK(mentions("--tensor-model-parallel-size 4", "a multiple of 8 devices"));
  CHECK(mentions("--seq-length \"8", "the quotation does not end"));
  CHECK(refusal("nothing", 8, "2xh100").find("--micro-batch-size") == std::string::npos);
}

TEST_CASE("full recomputation of whole stages is taken over, with a note") {
  const PlanQuestion question = question_of(8, "2xh100");
  const ImportedPlan plan = import_plan(
      plan_importer("megatron"),
      "--pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 8 "
      "--recompute-granularity full --recompute-method uniform --recompute-num-layers 4",
      "f", question);
  CHECK(plan.plan.stages[0].recompute == Recompute::full);
  CHECK(plan.plan.stages[1].recompute == Recompute::full);
  CHECK(plan.notes.size() == 1);
}

TEST_CASE("layers that recompute by themselves are taken over") {
  const PlanQuestion question = question_of(8, "2xh100");
  const auto again = [&](const std::string& flags) {
    const ImportedPlan read = import_plan(
        plan_importer("megatron"),
        "--pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 8 " + flags, "f",
        question);
    std::vector<std::string> words;
    for (const Stage& stage : read.plan.stages) {
      CHECK(stage.recompute == Recompute::none);
      words.push_back(recompute_in_words(stage));
    }
    CHECK(read.plan.stages[0].again.front() == Recomputed::none);  // the embedding
    CHECK(read.plan.stages[1].again.back() == Recomputed::none);   // the head
    return words;
  };
  using Words = std::vector<std::string>;
  const std::string full = "--recompute-granularity full --recompute-method ";
  CHECK(again("--recompute-granularity selective") == Words(2, "4 of 5 layers selective"));
  CHECK(again("--recompute-activations") == Words(2, "4 of 5 layers selective"));
  CHECK(again(full + "block --recompute-num-layers 3") == Words(2, "3 of 5 layers"));
  CHECK(again(full + "block --recompute-num-layers 9") == Words(2, "4 of 5 layers"));
  CHECK(again(full + "uniform --recompute-num-layers 1") == Words(2, "4 of 5 layers"));
  CHECK(again(full + "uniform --recompute-num-layers 2") == Words(2, "4 of 5 layers in 2 runs"));
  CHECK(again(full + "uniform --recompute-num-layers 3") == Words(2, "4 of 5 layers in 2 runs"));
}

TEST_CASE("what the flags say is not said again, and what they leave out is asked for") {
  PlanQuestion question = question_of(8, "2xh100", {.batch = 8});
  const std::string ranks = "--pipeline-model-parallel-size 2";
  const auto complaint = [&](const std::string& flags) {
    return message_of([&] { imported("megatron", ranks + flags, question); });
  };
  CHECK(complaint("") == "plan.txt: --micro-batch-size is missing");
  CHECK(complaint(batch) ==
        "plan.txt: the file has --global-batch-size already; leave --batch away");
  CHECK(complaint(" --micro-batch-size 3").find("refuses: the global batch size 8") !=
        std::string::npos);
  question.options.microbatch = 4;
  CHECK(imported("megatron", ranks, question).batch.microbatches == 2);
}

TEST_CASE(
    "the recipes of Megatron-LM's own tests are plans for 8 devices, or refused with a reason") {
  const std::string file = shared_folder() + "/oracles/measured/megatron_ci_iteration_times.json";
  if (!std::filesystem::exists(file)) SKIP("no reference data at " + shared_folder());
  constexpr std::string_view reasons[] = {"has no experts", "attention heads evenly",
                                          "--mtp-num-layers is",
                                          "plans recompute single layers or whole stages"};
  int plans = 0;
  int refused = 0;
  for (const Json& row : Json::read(file)["rows"].elements()) {
    const Json args = row["args"];
    const auto number = [&](std::string_view flag, int otherwise) {
      return args.contains(flag) ? std::stoi(args[flag].string()) : otherwise;
    };
    const int model =
        number("--tensor-model-parallel-size", 1) * number("--pipeline-model-parallel-size", 1);
    const PlanQuestion question =
        question_of(number("--num-layers", 12), concat(std::max(model, 8), "xh100"));
    std::string recipe = args.raw().dump();
    // The record leaves these two flags out.
    if (row["case"].string().find("account_for_embedding_loss") != std::string::npos) {
      recipe.pop_back();
      recipe +=
          R"(, "--account-for-embedding-in-pipeline-split": "true",
             "--account-for-loss-in-pipeline-split": "true"})";
    }
    INFO(recipe);
    const std::string complaint = message_of([&] { imported("megatron", recipe, question); });
    INFO(complaint);
    ++(complaint.empty() ? plans : refused);
    if (complaint.empty()) continue;
    CHECK(std::any_of(std::begin(reasons), std::end(reasons), [&](std::string_view reason) {
      return complaint.find(reason) != std::string::npos;
    }));
  }
  INFO(plans << " plans, " << refused << " refused");
  CHECK(plans > 200);
  CHECK(refused > 0);
}

TEST_CASE("Megatron-LM's other degrees become the plan's", "[parallelism]") {
  const auto plan_for = [](const std::string& flags, const std::string& cluster) {
    return imported(
        "megatron",
        "--pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 64 " + flags,
        question_of(8, cluster));
  };
  const Plan spread = plan_for("--tensor-model-parallel-size 2 --sequence-parallel", "8xh100");
  CHECK(spread.parallelism == Parallelism{.sequence = true});
  // Without peers it turns itself off.
  CHECK(plan_for("--sequence-parallel", "8xh100").parallelism == Parallelism{});
  const Plan ring = plan_for("--tensor-model-parallel-size 2 --context-parallel-size 2", "8xh100");
  CHECK(ring.parallelism.context == 2);
  CHECK(ring.stages.front().devices == std::vector<std::vector<int>>{{0, 1, 2, 3}});
  CHECK(
      plan_for("--pipeline-model-parallel-size 1 --use-torch-fsdp2", "8xh100").optimizer.sharding ==
      Sharding::zero3);
  CHECK(plan_for("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", "8xh100")
            .optimizer.sharding == Sharding::zero2);
  // megatron-core 0.19.2: all by default, and the distributed optimizer by itself.
  CHECK(plan_for("--use-megatron-fsdp", "8xh100").optimizer.sharding == Sharding::zero3);
  CHECK(plan_for("--use-megatron-fsdp --use-distributed-optimizer", "8xh100").optimizer.sharding ==
        Sharding::zero3);
}

TEST_CASE("Megatron-LM's sums of gradients beside the backward have its buckets") {
  const auto bucket = [](const std::string& flags) {
    return imported("megatron", "--micro-batch-size 1 --global-batch-size 64 " + flags,
                    question_of(8, "64xh100"))
        .optimizer.gradient_bucket;
  };
  CHECK(bucket("") == 0);
  CHECK(bucket("--ddp-bucket-size 1000") == 0);
  CHECK(bucket("--overlap-grad-reduce --ddp-bucket-size 1000") == 4000);
  CHECK(bucket("--overlap-grad-reduce --pipeline-model-parallel-size 2") == 160'000'000);
  // A million parameters for each of more than forty replicas.
  CHECK(bucket("--overlap-grad-reduce") == 256'000'000);
}

TEST_CASE("flags of another shape than the model are told, and only those") {
  const PlanQuestion question = question_of(16, "2xh100");
  const std::int64_t hidden = question.profile.model.transformer.value().hidden;
  const auto notes = [&](const std::string& flags) {
    const std::string text = "--num-layers 16 --pipeline-model-parallel-size 2 " + flags + batch;
    return import_megatron(text, "train.sh", question).notes;
  };
  CHECK(notes(concat("--hidden-size ", hidden)).empty());
  CHECK(notes("--hidden-size $HIDDEN").empty());
  const std::vector<std::string> told = notes(concat("--hidden-size ", 2 * hidden));
  REQUIRE(told.size() == 1);
  CHECK_THAT(told.front(),
             ContainsSubstring(concat("--hidden-size ", 2 * hidden, " (the model has ", hidden)));
}

TEST_CASE("what of recompute modules plans do not take over is told") {
  const auto of = [](const std::string& model, const std::string& flags) {
    PlanQuestion question = question_of(1, "2xh100");
    question.profile.model = builtin_model(model);
    return import_megatron("--pipeline-model-parallel-size 2 " + flags + batch, "f", question);
  };
  const auto notes = [&](const std::string& flags) {
    std::string all;
    for (const std::string& note : of("mixtral-8x7b", flags).notes) all += note + "\n";
    return all;
  };
  const std::string selective = "--recompute-granularity selective --recompute-modules ";
  CHECK(notes(selective + "moe_act layernorm").empty());
  CHECK_THAT(notes(selective + "mla_up_proj moe_act"),
             ContainsSubstring("no layer of mixtral-8x7b has mla_up_proj"));
  CHECK(to_string(of("mixtral-8x7b", selective + "mla_up_proj moe_act").plan.kernels.again) ==
        "moe_act");
  CHECK_THAT(notes(selective + "gdn_norm_out layernorm"),
             ContainsSubstring("plans know no module gdn_norm_out"));
  CHECK_THAT(
      notes("--recompute-modules layernorm moe"),
      ContainsSubstring("layernorm+moe does nothing without --recompute-granularity selective"));
  // Where no layer has any of them, nothing is done again.
  for (const std::string none : {"mla_up_proj", "mlp shared_experts", "gdn_norm_out"}) {
    const ImportedPlan read = of("mixtral-8x7b", selective + none);
    CHECK_FALSE(recomputes_selectively(read.plan));
    CHECK(read.plan.kernels.again.empty());
    CHECK_FALSE(read.notes.empty());
  }
  // A log has the usual one in any case.
  CHECK(notes("--recompute-modules core_attn").empty());
  CHECK(to_string(of("mixtral-8x7b", "--moe-layer-recompute").plan.kernels.again) ==
        "core_attn+moe");
  CHECK_THAT(
      message_of([&] {
        of("mixtral-8x7b",
           "--moe-layer-recompute --recompute-granularity full "
           "--recompute-method uniform --recompute-num-layers 1");
      }),
      ContainsSubstring("refuses --moe-layer-recompute beside --recompute-granularity full"));
  // What the command line says, too, must be the same.
  PlanQuestion question = question_of(1, "2xh100");
  question.profile.model = builtin_model("mixtral-8x7b");
  question.options.recompute_modules = read_layer_modules("moe");
  CHECK_THROWS(import_megatron("--pipeline-model-parallel-size 2 " + selective + "moe_act" + batch,
                               "f", question));
}

TEST_CASE("flags of other experts than the model's are told") {
  const auto notes = [](const std::string& model, const std::string& flags) {
    PlanQuestion question = question_of(1, "2xh100");
    question.profile.model = builtin_model(model);
    return import_megatron("--pipeline-model-parallel-size 2 " + flags + batch, "f", question)
        .notes;
  };
  CHECK(notes("mixtral-8x7b", "--num-experts 8 --moe-router-topk 2").empty());
  REQUIRE(notes("mixtral-8x7b", "--num-experts 16 --moe-router-topk 4").size() == 1);
  CHECK_THAT(notes("mixtral-8x7b", "--num-experts 16 --moe-router-topk 4").front(),
             ContainsSubstring("--num-experts 16 (the model has 8), --moe-router-topk 4 (the model "
                               "has 2)"));
  CHECK_THAT(notes("tiny-gpt", "--num-experts 4").front(),
             ContainsSubstring("--num-experts 4 (the model has 0)"));
  // What a log has of a model without experts.
  CHECK(notes("tiny-gpt", "--moe-router-topk 2").empty());
}
