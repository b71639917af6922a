// A plan that is exported and imported again is the same plan; one that a format has no words for
// is refused.

#include "planner/interop/exporters.hpp"

#include <set>

#include "planner/costs/stage_recompute.hpp"
#include "planner/interop/load_plan.hpp"
#include "planner/interop/torch_names.hpp"
#include "planner/plan/layer_names.hpp"
#include "planner/plan/transformers_modules.hpp"
#include "planner/targets/targets.hpp"
#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "profiles/prediction_modules.hpp"
#include "simulator/schedules/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/planner/interop/importers/questions.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

LoadedPlan loaded_from(const Plan& plan, const PlanQuestion& question) {
  return {.plan = plan,
          .profile = question.profile,
          .cluster = question.cluster,
          .path = "plan.json",
          .hash = {}};
}

/// Ascending boundaries of so many stages, none of them empty, or some between the first and the
/// last one.
std::vector<int> random_cuts(Random& random, int layers, int stages, bool some_empty) {
  std::multiset<int> cuts{0, layers};
  while (static_cast<int>(cuts.size()) <= stages) {
    const int cut = random.between(1, layers - 1);
    if (some_empty || !cuts.contains(cut)) cuts.insert(cut);
  }
  return {cuts.begin(), cuts.end()};
}

struct Shape {
  int ranks = 1, chunks = 1, data = 1, tensor = 1, context = 1;
  int peers() const { return tensor * context; }
  int devices() const { return ranks * data * peers(); }
};

/// What all three runtimes have: equal degrees, replicas that share microbatches.
Plan random_plan(Random& random, const Shape& shape, const std::string& schedule,
                 const PlanQuestion& question, bool some_empty = false) {
  Plan plan;
  plan.model = question.model_name;
  plan.cluster = question.cluster_name;
  plan.precision = random.chance(50) ? Precision::bfloat16 : Precision::float32;
  plan.optimizer.kind = random.chance(50) ? OptimizerKind::adamw : OptimizerKind::sgd;
  plan.optimizer.sharding = random.chance(50) ? Sharding::zero1 : Sharding::none;
  plan.parallelism = {.sequence = shape.tensor > 1 && random.chance(50), .context = shape.context};
  plan.schedule = {.name = schedule, .virtual_stages = shape.chunks};
  const std::int64_t samples = std::int64_t{random.between(1, 3)} * shape.data;
  const int microbatches = shape.ranks * random.between(2, 3);
  plan.batch = {samples * microbatches, samples, microbatches, 8};
  const int layers = static_cast<int>(question.profile.model.layers.size());
  const std::vector<int> cuts = random_cuts(random, layers, shape.ranks * shape.chunks, some_empty);
  const Recompute recompute = random.chance(50) ? Recompute::full : Recompute::none;
  for (int s = 0; s < shape.ranks * shape.chunks; ++s) {
    const int rank = device_of_stage(find_schedule(schedule).placement, s, shape.ranks);
    Stage& stage = plan.stages.emplace_back();
    stage.layers = {cuts[static_cast<std::size_t>(s)], cuts[static_cast<std::size_t>(s) + 1]};
    stage.recompute = recompute;
    for (int replica = 0; replica < shape.data; ++replica) {
      auto& peers = stage.devices.emplace_back();
      for (int peer = 0; peer < shape.peers(); ++peer)
        peers.push_back((rank * shape.data + replica) * shape.peers() + peer);
    }
  }
  return plan;
}

/// So many layers at a time, of all but the first and last `ends` of the model.
void set_runs(Random& random, Plan& plan, int ends) {
  const auto range_of = [&](const Stage& stage) {
    const int first = std::max(stage.layers.first, ends);
    return LayerRange{
        first, std::max(first, std::min(stage.layers.end, plan.stages.back().layers.end - ends))};
  };
  int most = 0;
  for (const Stage& stage : plan.stages) most = std::max(most, range_of(stage).size());
  if (most < 2) return;
  const int length = random.between(1, most - 1);
  for (Stage& stage : plan.stages) {
    const LayerRange range = range_of(stage);
    if (range.size() > 0) recompute_in_runs(stage, range, length);
  }
}

/// What Megatron-LM has words for: the first layers of each stage, all of them, so many at a time,
/// or the attention of all.
void set_layers_again(Random& random, Plan& plan) {
  if (plan.stages.front().recompute == Recompute::full || random.chance(30)) return;
  if (random.chance(30)) return set_runs(random, plan, 1);
  const bool selective = random.chance(30);
  const int layers = plan.stages.back().layers.end;
  const int most = random.between(1, 4);
  for (Stage& stage : plan.stages) {
    const int first = std::max(stage.layers.first, 1);
    const int end = std::min(stage.layers.end, layers - 1);
    const int last = selective ? end : std::min(end, first + most);
    if (first >= last) continue;
    stage.again.resize(static_cast<std::size_t>(stage.layers.size()));
    std::fill(stage.again.begin() + (first - stage.layers.first),
              stage.again.begin() + (last - stage.layers.first),
              selective ? Recomputed::selective : Recomputed::full);
  }
}

/// What DeepSpeed has words for: all layers of all stages, so many at a time.
void set_all_layers_again(Random& random, Plan& plan) {
  if (plan.stages.front().recompute == Recompute::full || random.chance(50)) return;
  set_runs(random, plan, 0);
}

/// What torch has words for: the second, or the third, … block of each rank, or all blocks.
void set_some_blocks_again(Random& random, Plan& plan) {
  if (plan.stages.front().recompute == Recompute::full || random.chance(30)) return;
  const int every = random.between(1, 3);
  std::vector<int> counted(static_cast<std::size_t>(pipeline_devices(plan)), 0);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    Stage& stage = plan.stages[s];
    for (int layer = stage.layers.first; layer < stage.layers.end; ++layer) {
      const bool is_block = 0 < layer && layer < plan.stages.back().layers.end - 1;
      if (!is_block || ++counted[s % counted.size()] % every != 0) continue;
      stage.again.resize(static_cast<std::size_t>(stage.layers.size()), Recomputed::none);
      stage.again[static_cast<std::size_t>(layer - stage.layers.first)] = Recomputed::full;
    }
  }
}

/// What the format leaves open, as the plan has it.
PlanOptions left_open(const std::string& format, const Plan& plan) {
  PlanOptions options;
  options.kernels = plan.kernels.framework;
  if (format != "megatron") options.sequence = plan.batch.sequence;
  const bool has_precision = format != "torch" && plan.precision != Precision::float32;
  if (format == "torch" || (format == "deepspeed" && !has_precision))
    options.precision = plan.precision;
  if (format == "torch") options.optimizer = plan.optimizer.kind;
  if (format == "torch") options.sharding = plan.optimizer.sharding;
  if (format == "torch") options.gradient_bucket = plan.optimizer.gradient_bucket;
  return options;
}

std::string written(std::string_view format, const LoadedPlan& loaded) {
  for (const Exporter& exporter : exporters) {
    if (exporter.name == format) return exporter.write(loaded);
  }
  return {};
}

/// A plan of 4 blocks on two devices.
Plan simple_plan() {
  return imported("megatron",
                  "--pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 8",
                  question_of(4, "2xh100"));
}

std::string refusal(std::string_view format, const Plan& plan, const PlanQuestion& question) {
  return message_of([&] { written(format, loaded_from(plan, question)); });
}

}  // namespace

TEST_CASE("plans that are exported and imported again are the same") {
  Random random(5);
  std::set<std::string> ways;
  for (int round = 0; round < (is_watched ? 20 : 100); ++round) {
    for (const std::string format : {"megatron", "deepspeed", "torch"}) {
      const bool may_interleave = format != "deepspeed" && random.chance(50);
      const Shape shape{.ranks = random.between(may_interleave ? 2 : 1, 4),
                        .chunks = may_interleave ? random.between(2, 3) : 1,
                        .data = random.between(1, 2),
                        .tensor = random.between(1, 2),
                        .context = format == "deepspeed" ? 1 : random.between(1, 2)};
      // Sometimes the cluster has more devices than the plan uses.
      const int devices = shape.devices() * random.between(1, 2);
      PlanQuestion question = question_of(random.between(10, 16), concat(devices, "xh100"));
      const bool some_empty = format != "torch" && random.chance(30);
      Plan plan =
          random_plan(random, shape, may_interleave ? "interleaved" : "1f1b", question, some_empty);
      if (random.chance(50)) plan.kernels.framework = Framework::torch;
      if (format == "megatron" && random.chance(30)) plan.kernels.graphs = CudaGraphs::step;
      if (format == "megatron") set_layers_again(random, plan);
      if (format == "deepspeed") set_all_layers_again(random, plan);
      if (format == "torch") set_some_blocks_again(random, plan);
      const bool has_all_zero = format == "megatron" || (format == "deepspeed" && shape.ranks == 1);
      if (has_all_zero && random.chance(40)) {
        plan.optimizer.sharding = random.chance(50) ? Sharding::zero2 : Sharding::zero3;
      }
      if (format != "deepspeed" && random.chance(30)) {
        plan.optimizer.gradient_bucket = 4 * random.between(1, 1'000'000);
      }
      REQUIRE_NOTHROW(validate(plan, question.profile.model, question.cluster));
      const std::string text = written(format, loaded_from(plan, question));
      INFO(text << write_plan(plan));
      question.options = left_open(format, plan);
      CHECK(write_plan(imported(format, text, question)) == write_plan(plan));
      ways.insert(text.find("layout") != std::string::npos ? "layout" : format);
    }
  }
  CHECK(ways.size() == 4);
}

TEST_CASE("plans with multi-token prediction go to Megatron-LM and back, or are refused") {
  Random random(8);
  int plans = 0, refused = 0;
  for (int round = 0; round < (is_watched ? 25 : 100); ++round) {
    const Shape shape{.ranks = random.between(1, 4), .data = random.between(1, 2)};
    PlanQuestion question = question_of(5, concat(shape.devices(), "xh100"));
    Transformer transformer = *question.profile.model.transformer;
    transformer.prediction_modules = random.between(1, 3);
    transformer.position = Transformer::Position::rotary;  // which its modules of prediction want
    question.profile.model = make_transformer("deep", transformer, 5, 8);
    const Plan plan = random_plan(random, shape, "1f1b", question, random.chance(50));
    INFO(write_plan(plan));
    const std::string complaint = refusal("megatron", plan, question);
    ++(complaint.empty() ? plans : refused);
    if (complaint.empty()) {
      const std::string text = written("megatron", loaded_from(plan, question));
      INFO(text);
      CHECK(write_plan(imported("megatron", text, question)) == write_plan(plan));
    } else {
      CHECK_THAT(complaint, ContainsSubstring("has no flags for the plan's stages: ") &&
                                ContainsSubstring("multi-token prediction"));
    }
  }
  CHECK(plans > (is_watched ? 5 : 20));
  CHECK(refused > (is_watched ? 1 : 5));
}

TEST_CASE(
    "who scales what is rounded to fp8 goes to Megatron-LM and back, and a device's own is said") {
  struct Case {
    const char* cluster;
    std::optional<Float8Recipe> recipe;
    std::vector<std::string_view> flags;
    std::string_view bridge;
  };
  using enum Float8Recipe;
  for (const Case& each :
       {Case{"8xh100", {}, {"--fp8-format hybrid"}, "bf16_with_fp8_delayed_scaling_mixed"},
        Case{"8xh100",
             tensorwise,
             {"--fp8-format hybrid", "--fp8-recipe tensorwise"},
             "bf16_with_fp8_current_scaling_mixed"},
        Case{"8xh100",
             blockwise,
             {"--fp8-format hybrid", "--fp8-recipe blockwise"},
             "bf16_with_fp8_subchannel_scaling_mixed"},
        Case{"8xgb200", {}, {"--fp8-format e4m3", "--fp8-recipe mxfp8"}, "bf16_with_mxfp8_mixed"},
        Case{"8xgb200", delayed, {"--fp8-format hybrid"}, "bf16_with_fp8_delayed_scaling_mixed"}}) {
    INFO(each.cluster << each.bridge);
    PlanQuestion question = question_of(4, each.cluster);
    question.profile.model = builtin_model("mixtral-8x7b");
    Plan plan = imported("megatron",
                         "--pipeline-model-parallel-size 2 --expert-model-parallel-size 4 --bf16 "
                         "--micro-batch-size 1 --global-batch-size 8 --seq-length 4096",
                         question);
    plan.precision = Precision::float8;
    plan.kernels.float8_recipe = each.recipe;
    const std::string text = written("megatron", loaded_from(plan, question));
    for (const std::string_view flag : each.flags)
      CHECK_THAT(text, ContainsSubstring(std::string(flag)));
    CHECK(write_plan(imported("megatron", text, question)) == write_plan(plan));
    const std::string bridge = written("megatron-bridge", loaded_from(plan, question));
    CHECK_THAT(bridge, ContainsSubstring("mixed_precision=" + std::string(each.bridge)));
    const Plan back = imported("megatron", bridge, question);
    CHECK(back.precision == Precision::float8);
    CHECK(back.kernels.float8_recipe == each.recipe);
    if (each.recipe) {
      CHECK_THAT(refusal("deepspeed", plan, question), ContainsSubstring("without an fp8 recipe"));
      plan.precision = Precision::bfloat16;
      CHECK_THROWS_WITH(validate(plan, question.profile.model, question.cluster),
                        ContainsSubstring("layers compute in bf16"));
    }
  }
}

TEST_CASE("flags in fp8 that name no recipe have none where layers have PyTorch's kernels") {
  PlanQuestion question = question_of(4, "8xgb200");
  question.profile.model = builtin_model("llama3-8b");
  const std::string flags =
      "--bf16 --fp8-format hybrid --micro-batch-size 1 --global-batch-size 8 --seq-length 4096";
  CHECK(imported("megatron", flags, question).kernels.float8_recipe == Float8Recipe::delayed);
  question.options.kernels = Framework::torch;
  const Plan plan = imported("megatron", flags, question);
  CHECK(plan.precision == Precision::float8);
  CHECK(!plan.kernels.float8_recipe);
}

TEST_CASE("a plan with PyTorch's kernels has none of Megatron-LM's losses") {
  PlanQuestion question = question_of(4, "8xh100");
  question.profile.model = builtin_model("llama3-8b");
  Plan plan = imported("megatron",
                       "--bf16 --micro-batch-size 1 --global-batch-size 8 --seq-length 4096 "
                       "--cross-entropy-loss-fusion",
                       question);
  validate(plan, question.profile.model, question.cluster);
  plan.kernels.framework = Framework::torch;
  CHECK_THROWS_WITH(validate(plan, question.profile.model, question.cluster),
                    "plan: the fused loss is Megatron-LM's, and layers have PyTorch's kernels");
}

TEST_CASE("a router is fused where there is one, by Megatron-LM") {
  PlanQuestion question = question_of(4, "8xh100");
  question.profile.model = builtin_model("mixtral-8x7b");
  const std::string flags =
      "--expert-model-parallel-size 4 --bf16 --micro-batch-size 1 --global-batch-size 8 "
      "--seq-length 4096 --moe-router-fusion";
  Plan plan = imported("megatron", flags, question);
  CHECK(plan.kernels == LayerKernels{.router_fusion = RouterFusion::on});
  validate(plan, question.profile.model, question.cluster);
  plan.kernels.framework = Framework::torch;
  CHECK_THROWS_WITH(validate(plan, question.profile.model, question.cluster),
                    "plan: the fused router is Megatron-LM's, and layers have PyTorch's kernels");
  question.profile.model = builtin_model("llama3-8b");
  const std::string dense = "--bf16 --micro-batch-size 1 --global-batch-size 8 --moe-router-fusion";
  plan = imported("megatron", dense, question);
  CHECK(plan.kernels == LayerKernels{});
  plan.kernels.router_fusion = RouterFusion::on;
  CHECK_THROWS_WITH(validate(plan, question.profile.model, question.cluster),
                    "plan: no layer of llama3-8b has a router to fuse");
}

TEST_CASE("modules of multi-token prediction count whether numbers or steps describe a model") {
  PlanQuestion question = question_of(4, "8xh100");
  question.profile = import_huggingface(
      R"({"model_type": "glm4_moe", "vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 4,
          "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16,
          "intermediate_size": 96, "max_position_embeddings": 4096, "num_experts_per_tok": 2,
          "moe_intermediate_size": 32, "n_routed_experts": 8, "n_shared_experts": 1,
          "first_k_dense_replace": 1, "num_nextn_predict_layers": 1, "use_qk_norm": false})",
      "config.json");
  REQUIRE(prediction_modules(question.profile.model) == 1);
  CHECK(prediction_modules(builtin_model("deepseek-v3")) == 1);
  CHECK(prediction_modules(builtin_model("llama3-8b")) == 0);
  const Plan plan = imported("megatron",
                             "--num-layers 4 --mtp-num-layers 1 --pipeline-model-parallel-size 2 "
                             "--bf16 --micro-batch-size 1 --global-batch-size 8",
                             question);
  const std::string text = written("megatron", loaded_from(plan, question));
  CHECK_THAT(text, ContainsSubstring("--mtp-num-layers 1"));
  CHECK(write_plan(imported("megatron", text, question)) == write_plan(plan));
}

TEST_CASE("messages beside kernels go to Megatron-LM and back, where there are any") {
  PlanQuestion question = question_of(2, "2x8xh100");
  question.profile.model = builtin_model("mixtral-8x7b");
  const std::string flags =
      "--tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 4 --bf16 "
      "--micro-batch-size 1 --global-batch-size 64 --seq-length 4096 "
      "--pipeline-model-parallel-size ";
  const std::string tensor = " --tp-comm-overlap", experts = " --overlap-moe-expert-parallel-comm";
  const std::string interleaved = "2 --num-virtual-stages-per-pipeline-rank 2";
  for (const std::string& said : {std::string(), tensor, experts, tensor + experts}) {
    INFO(said);
    const Plan plan = imported("megatron", flags + interleaved + said, question);
    CHECK(plan.kernels.overlap.tensor == (said.find(tensor) == 0));
    CHECK(plan.kernels.overlap.experts == said.ends_with(experts));
    const std::string text = written("megatron", loaded_from(plan, question));
    CHECK(write_plan(imported("megatron", text, question)) == write_plan(plan));
    const std::string bridge = written("megatron-bridge", loaded_from(plan, question));
    CHECK(imported("megatron", bridge, question).kernels == plan.kernels);
    CHECK_THAT(bridge, ContainsSubstring(concat("model.tp_comm_overlap=",
                                                plan.kernels.overlap.tensor ? "true" : "false")));
    CHECK(ContainsSubstring("without messages beside kernels")
              .match(refusal("torch", plan, question)) == !said.empty());
  }
  const auto against = [&](const std::string& more) {
    return refusal("megatron", imported("megatron", flags + more, question), question);
  };
  CHECK_THAT(against("2" + experts), ContainsSubstring("in interleaved pipelines alone"));
  CHECK(against("1" + experts).empty());
  CHECK_THAT(against("1" + experts + " --recompute-granularity selective --recompute-modules moe"),
             ContainsSubstring("where experts are not done again"));
  CHECK_THAT(against("1" + experts +
                     " --recompute-granularity full --recompute-method uniform "
                     "--recompute-num-layers 1"),
             ContainsSubstring("without full recomputation"));
  // Of peers that there are not, nothing is taken over.
  const auto notes = [&](const std::string& model, const std::string& line) {
    question.profile.model = builtin_model(model);
    const ImportedPlan read = import_megatron(
        "--bf16 --micro-batch-size 1 --global-batch-size 64 " + line, "f", question);
    CHECK(read.plan.kernels.overlap.empty());
    std::string all;
    for (const std::string& note : read.notes) all += note + "\n";
    return all;
  };
  CHECK_THAT(notes("llama3-8b", "--tensor-model-parallel-size 2" + tensor),
             ContainsSubstring("does nothing without --sequence-parallel"));
  CHECK_THAT(notes("llama3-8b", tensor + experts),
             ContainsSubstring("without tensor-parallel peers") &&
                 ContainsSubstring("where experts have no peers"));
}

TEST_CASE("modules that are done again go to Megatron-LM and back, as it has them") {
  PlanQuestion question = question_of(4, "8xh100");
  question.profile.model = builtin_model("deepseek-v2-lite");
  const std::string flags =
      "--pipeline-model-parallel-size 1 --expert-model-parallel-size 4 --bf16 "
      "--micro-batch-size 1 --global-batch-size 8 --seq-length 4096 "
      "--recompute-granularity selective";
  const Plan usual = imported("megatron", flags, question);
  CHECK(usual.kernels.again.empty());
  CHECK_THAT(written("megatron", loaded_from(usual, question)),
             !ContainsSubstring("--recompute-modules"));
  for (const std::string words :
       {"core_attn", "layernorm moe_act", "mla_up_proj mlp moe", "mla_up_proj shared_experts"}) {
    INFO(words);
    Plan plan = imported("megatron", flags + " --recompute-modules " + words, question);
    CHECK(plan.kernels.again == read_layer_modules(words));
    CHECK(plan.stages == usual.stages);
    const std::string text = written("megatron", loaded_from(plan, question));
    CHECK_THAT(text, ContainsSubstring("--recompute-modules " + words));
    CHECK(write_plan(imported("megatron", text, question)) == write_plan(plan));
    const std::string bridge = written("megatron-bridge", loaded_from(plan, question));
    CHECK(imported("megatron", bridge, question).kernels == plan.kernels);
    CHECK_THAT(refusal("torch", plan, question),
               ContainsSubstring("does not recompute by Megatron-LM's modules"));
    const bool has_norms = plan.kernels.again.has(LayerModule::norms);
    plan.precision = Precision::float8;
    CHECK(ContainsSubstring("under delayed scaling of fp8")
              .match(refusal("megatron", plan, question)) == has_norms);
    plan.kernels.float8_recipe = Float8Recipe::tensorwise;
    CHECK(refusal("megatron", plan, question).empty());
    plan.kernels.graphs = CudaGraphs::layers;
    const bool has_experts = plan.kernels.again.has(LayerModule::experts);
    CHECK(
        ContainsSubstring("router is in a CUDA graph").match(refusal("megatron", plan, question)) ==
        has_experts);
  }
}

TEST_CASE("groups of experts go to Megatron-LM as the model has them, or as nodes are few") {
  PlanQuestion question = question_of(2, "2x8xh100");
  const std::string flags =
      "--pipeline-model-parallel-size 1 --expert-model-parallel-size 16 --bf16 "
      "--micro-batch-size 1 --global-batch-size 16 --seq-length 4096";
  const auto exported = [&](const std::string& model, const std::string& more) {
    question.profile.model = builtin_model(model);
    const Plan plan = imported("megatron", flags + more, question);
    const std::string text = written("megatron", loaded_from(plan, question));
    CHECK(write_plan(imported("megatron", text, question)) == write_plan(plan));
    return std::pair(plan.parallelism.expert_nodes, text);
  };
  const std::string groups = " --moe-router-num-groups 8 --moe-router-group-topk 3";
  const auto known = exported("deepseek-v2", "");
  CHECK(known.first == 0);
  CHECK_THAT(known.second, ContainsSubstring("--moe-router-num-groups 8") &&
                               ContainsSubstring("--moe-router-group-topk 3"));
  CHECK(exported("deepseek-v2", groups) == known);
  const auto few = exported("deepseek-v2-lite", groups);
  CHECK(few.first == 3);
  CHECK_THAT(few.second, ContainsSubstring("--moe-router-group-topk 3"));
  const auto free = exported("deepseek-v2-lite", "");
  CHECK(free.first == 0);
  CHECK_THAT(free.second, !ContainsSubstring("--moe-router-num-groups"));
}

TEST_CASE("how tokens get to experts and what the host sends at once go to Megatron-LM and back") {
  PlanQuestion question = question_of(4, "8xh100");
  question.profile.model = builtin_model("mixtral-8x7b");
  Plan plan = imported("megatron",
                       "--pipeline-model-parallel-size 2 --expert-model-parallel-size 4 --bf16 "
                       "--micro-batch-size 1 --global-batch-size 8 --seq-length 4096",
                       question);
  CHECK(plan.kernels == LayerKernels{});
  using enum Dispatcher;
  for (const Dispatcher dispatcher : {alltoall, deepep, hybridep}) {
    for (const CudaGraphs graphs : {CudaGraphs::none, CudaGraphs::layers}) {
      plan.kernels = {.dispatcher = dispatcher, .graphs = graphs};
      const std::string text = written("megatron", loaded_from(plan, question));
      INFO(text);
      CHECK(write_plan(imported("megatron", text, question)) == write_plan(plan));
      const std::string bridge = written("megatron-bridge", loaded_from(plan, question));
      CHECK_THAT(bridge, ContainsSubstring(dispatcher == alltoall
                                               ? "model.moe_token_dispatcher_type=alltoall "
                                               : "model.moe_token_dispatcher_type=flex "));
      CHECK(imported("megatron", bridge, question).kernels == plan.kernels);
      CHECK_THAT(bridge, ContainsSubstring(graphs == CudaGraphs::none
                                               ? "model.cuda_graph_impl=none "
                                               : "model.cuda_graph_scope='[attn,moe_router,"));
    }
  }
  for (const FusedLoss loss : {FusedLoss::none, FusedLoss::native, FusedLoss::te}) {
    plan.kernels = {.fused_loss = loss};
    const std::string text = written("megatron-bridge", loaded_from(plan, question));
    CHECK(imported("megatron", text, question).kernels == plan.kernels);
    if (loss == FusedLoss::te) continue;
    const std::string script = written("megatron", loaded_from(plan, question));
    CHECK(imported("megatron", script, question).kernels == plan.kernels);
  }
  CHECK_THAT(refusal("megatron", plan, question),
             ContainsSubstring("refuses Transformer Engine's fused loss"));
  CHECK_THAT(refusal("torch", plan, question),
             ContainsSubstring("without Megatron-LM's fused loss"));
  plan.kernels = {.router_fusion = RouterFusion::on};
  for (const std::string_view format : {"megatron", "megatron-bridge"}) {
    const std::string text = written(format, loaded_from(plan, question));
    CHECK(imported("megatron", text, question).kernels == plan.kernels);
  }
  CHECK_THAT(refusal("torch", plan, question),
             ContainsSubstring("without Megatron-LM's fused router"));
  plan.kernels = {.dispatcher = deepep, .graphs = CudaGraphs::step};
  CHECK_THAT(refusal("megatron", plan, question),
             ContainsSubstring("only where tokens are padded to a capacity"));
  for (const std::string_view format : {"deepspeed", "vllm", "torch"}) {
    CHECK_THAT(refusal(format, plan, question),
               ContainsSubstring("the dispatcher alltoall alone, and the plan has deepep") &&
                   ContainsSubstring("without CUDA graphs, which the plan has"));
  }
  plan.kernels.graphs = CudaGraphs::layers;
  plan.stages.front().recompute = Recompute::full;
  CHECK_THAT(refusal("megatron", plan, question),
             ContainsSubstring("no CUDA graphs of layers that it recomputes in full"));
}

TEST_CASE("empty stages: with a word of warning, without names, or refused") {
  const PlanQuestion question = question_of(4, "3xh100");
  Random random(2);
  Plan plan = random_plan(random, {.ranks = 3}, "1f1b", question);
  plan.stages[0].layers = {0, 3};
  plan.stages[1].layers = {3, 3};
  plan.stages[2].layers = {3, 6};
  const LoadedPlan loaded = loaded_from(plan, question);
  CHECK_THAT(written("megatron", loaded),
             ContainsSubstring("# A stage is empty: some releases") &&
                 ContainsSubstring("--pipeline-model-parallel-layout \"Ett||ttL\""));
  CHECK_THAT(written("deepspeed", loaded), ContainsSubstring("[0, 3, 3, 6]"));
  CHECK_THAT(written("csv", loaded), ContainsSubstring("\n1,3,3,,,0,1,1,1,"));
  CHECK_THAT(written("vllm", loaded), ContainsSubstring("VLLM_PP_LAYER_PARTITION=2,0,2"));
  CHECK_THAT(refusal("torch", plan, question), ContainsSubstring("stage 1 of the plan is empty"));
}

TEST_CASE("every schedule of torch goes there and back") {
  for (const std::string schedule :
       {"gpipe", "1f1b", "interleaved", "looped-bfs", "interleaved-zb", "zb-v", "dualpipev"}) {
    INFO(schedule);
    Random random(3);
    const bool is_linear = find_schedule(schedule).placement == StagePlacement::linear;
    PlanQuestion question = question_of(8, "2xh100");
    const Plan plan =
        random_plan(random, {.ranks = 2, .chunks = is_linear ? 1 : 2}, schedule, question);
    const std::string text = written("torch", loaded_from(plan, question));
    question.options = left_open("torch", plan);
    CHECK(write_plan(imported("torch", text, question)) == write_plan(plan));
  }
}

TEST_CASE("an order that no class of torch has goes along as a file for its runtime") {
  PlanQuestion question = question_of(10, "4xh100");
  Random random(4);
  const auto text_of = [&](const Plan& plan) {
    const std::string text = written("torch", loaded_from(plan, question));
    INFO(text);
    PlanQuestion again = question;
    again.options = left_open("torch", plan);
    CHECK(write_plan(imported("torch", text, again)) == write_plan(plan));
    return text;
  };
  const Plan zero_bubble = random_plan(random, {.ranks = 4}, "zb-h1", question);
  CHECK_THAT(text_of(zero_bubble),
             ContainsSubstring("\"schedule\": \"_PipelineScheduleRuntime\"") &&
                 ContainsSubstring("\"order\": {\"name\": \"zb-h1\"}") &&
                 ContainsSubstring("\"schedule_csv\": \"0F0,0F1,"));
  // Interleaved1F1B takes 10 microbatches on 4 ranks in two rounds of 5.
  Plan interleaved = random_plan(random, {.ranks = 4, .chunks = 2}, "interleaved", question);
  interleaved.batch = {10, 1, 10, 8};
  interleaved.schedule.group = 5;
  CHECK_THAT(text_of(interleaved), ContainsSubstring("\"schedule\": \"Interleaved1F1B\""));
  interleaved.schedule.group = 10;
  CHECK_THAT(text_of(interleaved),
             ContainsSubstring("\"name\": \"interleaved\"") && ContainsSubstring("\"group\": 10"));
  const auto notes = notes_on_torch(loaded_from(interleaved, question));
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes.front(), ContainsSubstring("takes 5 microbatches in a row through a stage; this "
                                              "plan takes 10"));
  const Plan looped = random_plan(random, {.ranks = 2, .chunks = 2}, "looped-bfs", question);
  CHECK_THAT(notes_on_torch(loaded_from(looped, question)).at(0),
             ContainsSubstring("goes back from the last microbatch"));
  CHECK(torch_round(4, 10) == 5);
  CHECK(torch_round(4, 3) == 3);
  CHECK_FALSE(torch_round(4, 9));
  // 1F1B of torch refuses fewer microbatches than stages.
  Plan few = random_plan(random, {.ranks = 4}, "1f1b", question);
  few.batch = {3, 1, 3, 8};
  CHECK_THAT(text_of(few), ContainsSubstring("_PipelineScheduleRuntime"));
}

TEST_CASE("a launch of Megatron-LM has all it needs to start") {
  const auto script = [](const std::string& flags) {
    const PlanQuestion question = question_of(4, "8xh100");
    const Plan plan =
        imported("megatron", "--micro-batch-size 1 --global-batch-size 16 " + flags, question);
    return std::pair{written("megatron", loaded_from(plan, question)),
                     written("megatron-bridge", loaded_from(plan, question))};
  };
  const auto [plain, bridge] = script("--pipeline-model-parallel-size 2");
  CHECK_THAT(plain, !ContainsSubstring("CUDA_DEVICE_MAX_CONNECTIONS") &&
                        ContainsSubstring("--hidden-size ") && ContainsSubstring("--seq-length ") &&
                        ContainsSubstring("--max-position-embeddings ") &&
                        ContainsSubstring("--vocab-size ") && ContainsSubstring("--train-iters "));
  CHECK_THAT(bridge, ContainsSubstring("model.pipeline_model_parallel_size=2 ") &&
                         ContainsSubstring("model.recompute_granularity=null ") &&
                         ContainsSubstring("train.global_batch_size=16 ") &&
                         ContainsSubstring("mixed_precision=null\n"));
  CHECK_THAT(script("--tensor-model-parallel-size 2").first,
             ContainsSubstring("\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun "));
  // Megatron's FSDP must not have it, and has a format of its own for checkpoints.
  const auto [sharded, sharded_bridge] = script(
      "--tensor-model-parallel-size 2 --use-distributed-optimizer --use-megatron-fsdp "
      "--data-parallel-sharding-strategy optim_grads_params");
  CHECK_THAT(sharded, ContainsSubstring("\nunset CUDA_DEVICE_MAX_CONNECTIONS\ntorchrun ") &&
                          ContainsSubstring("--ckpt-format fsdp_dtensor"));
  CHECK_THAT(sharded_bridge, ContainsSubstring("checkpoint.ckpt_format=fsdp_dtensor") &&
                                 ContainsSubstring("ddp.use_megatron_fsdp=true"));
}

TEST_CASE("modules of transformers have the names of their architecture") {
  const Model model = question_of(2, "2xh100").profile.model;
  const auto first = [&](std::string_view architecture) {
    return hugging_face_modules(model, architecture).front();
  };
  CHECK(first("") == std::vector<std::string>{"transformer.wte", "transformer.wpe"});
  CHECK(first("gpt_neox") == std::vector<std::string>{"gpt_neox.embed_in"});
  CHECK(first("qwen3") == std::vector<std::string>{"model.embed_tokens"});
  CHECK(first("dbrx") == std::vector<std::string>{"transformer.wte"});
  CHECK(hugging_face_modules(model, "jamba").back() ==
        std::vector<std::string>{"model.final_layernorm", "lm_head"});
  CHECK(hugging_face_modules(model, "nemotron_h").back() ==
        std::vector<std::string>{"model.norm_f", "lm_head"});
  CHECK(hugging_face_modules(model, "mamba2").at(1) ==
        std::vector<std::string>{"backbone.layers.0"});
  // OPT's own names are those of a model whose steps are OPT's.
  const Model opt = import_huggingface(R"({"model_type": "opt", "hidden_size": 64,
                                           "num_hidden_layers": 1, "num_attention_heads": 4,
                                           "ffn_dim": 96, "word_embed_proj_dim": 64,
                                           "vocab_size": 100})",
                                       "m.json")
                        .model;
  CHECK(hugging_face_modules(opt, "").at(1) == std::vector<std::string>{"model.decoder.layers.0"});
  CHECK_THAT(message_of([&] { first("rwkv"); }), ContainsSubstring("\"rwkv\" are not known here"));
}

TEST_CASE("modules that a configuration of transformers does without are not named") {
  const auto modules = [](const std::string& config) {
    return *transformers_modules(transformers_architecture(Json::parse(config, "config.json")));
  };
  const auto opt =
      modules(R"({"model_type": "opt", "hidden_size": 64, "word_embed_proj_dim": 64})");
  CHECK(opt.head == std::vector<std::string>{"model.decoder.final_layer_norm", "lm_head"});
  CHECK(opt.embedding.size() == 2);
  const auto narrow = modules(R"({"model_type": "opt", "hidden_size": 64, "word_embed_proj_dim": 16,
                                  "do_layer_norm_before": false})");
  CHECK(narrow.head == std::vector<std::string>{"model.decoder.project_out", "lm_head"});
  CHECK(narrow.embedding.back() == "model.decoder.project_in");
  const auto gemma = [&](const std::string& width) {
    const std::string key = "\"hidden_size_per_layer_input\": " + width;
    return modules("{\"model_type\": \"gemma4_text\", " + key + "}").embedding.size();
  };
  CHECK(gemma("0") == 1);
  CHECK(gemma("256") == 4);
  CHECK(modules(R"({"model_type": "electra", "embedding_size": 128, "hidden_size": 128})")
            .embedding.size() == 1);
  CHECK(modules(R"({"model_type": "electra"})").embedding.size() == 2);
}

TEST_CASE("modules of transformers' architectures are layers of ours by name") {
  const Model model = question_of(4, "2xh100").profile.model;
  const int last = static_cast<int>(model.layers.size()) - 1;
  for (const std::string_view type : {"bert", "dbrx", "jamba", "nemotron_h", "xglm", "lfm2",
                                      "gemma3n_text", "qwen4_exp_text", "mamba", "biogpt"}) {
    const auto modules = hugging_face_modules(model, type);
    for (std::size_t layer = 0; layer < modules.size(); ++layer) {
      for (const std::string& name : modules[layer])
        CHECK(find_layer(model, name) == static_cast<int>(layer));
    }
  }
  CHECK(find_layer(model, "model.norm_f") == last);
  // What lies in a block is no head, whatever its name.
  CHECK_THROWS(find_layer(model, "model.layers.3.layer_norm"));
}

TEST_CASE("Megatron-LM's script says what of a model there are arguments for, or is refused") {
  const auto loaded = [](const std::string& family, const std::string& members) {
    PlanQuestion question = question_of(6, "2xh100");
    question.profile.model = import_huggingface("{\"model_type\": \"" + family +
                                                    R"(", "hidden_size": 64, "num_hidden_layers": 6,
                               "num_attention_heads": 4, "num_key_value_heads": 2,
                               "intermediate_size": 96, "vocab_size": 100,
                               "max_position_embeddings": 4096)" +
                                                    members + "}",
                                                "deep.json")
                                 .model;
    Plan plan = simple_plan();
    plan.stages[0].layers = {0, 4};
    plan.stages[1].layers = {4, 8};
    return loaded_from(plan, question);
  };
  const std::string base = R"(, "rope_theta": 10000)";
  const auto script = [&](const std::string& family, const std::string& members) {
    return written("megatron", loaded(family, members));
  };
  const auto refused = [&](const std::string& family, const std::string& members) {
    return message_of([&] { script(family, members); });
  };
  CHECK_THAT(script("qwen3", base), ContainsSubstring("--qk-layernorm"));
  CHECK_THAT(script("qwen3", base), !ContainsSubstring("do not say"));
  CHECK_THAT(script("mistral", base + R"(, "sliding_window": 128)"),
             ContainsSubstring("--window-size 127,0"));
  CHECK_THAT(
      refused("olmo2", base),
      ContainsSubstring("Megatron-LM has no arguments for the model \"deep\": its norms stand "
                        "behind attention and feed-forward; it would train another one"));
  Transformer parallel = *builtin_model("llama3-8b").transformer;
  parallel.arithmetic.parallel_residual = true;
  CHECK_THAT(
      reasons_against_model(megatron_target, make_transformer("neox", parallel, 4, 64)).at(0),
      ContainsSubstring("attention and feed-forward are of the same input"));
  // A recipe of Megatron-Bridge says it.
  CHECK_THAT(written("megatron-bridge", loaded("olmo2", base)), ContainsSubstring("run_recipe.py"));
  const std::vector<std::string> reasons =
      reasons_against_model(megatron_target, builtin_model("bloom-176b"));
  REQUIRE(reasons.size() == 1);
  CHECK_THAT(reasons.front(), ContainsSubstring("its positions are slopes (ALiBi)"));
  CHECK(reasons_against_model(megatron_target, builtin_model("nemotron4-340b")).empty());
}

TEST_CASE("Megatron-LM gets simple flags where they do, and a layout where not") {
  const PlanQuestion question = question_of(6, "2xh100");
  const auto flags = [&](int cut) {
    Plan plan = simple_plan();
    plan.stages[0].layers = {0, cut};
    plan.stages[1].layers = {cut, 8};
    return written("megatron", loaded_from(plan, question));
  };
  const auto has = [](const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
  };
  CHECK_FALSE(has(flags(4), "first"));
  CHECK_FALSE(has(flags(4), "account"));
  CHECK(has(flags(3), "--decoder-first-pipeline-num-layers 2"));
  CHECK(has(flags(1), "--pipeline-model-parallel-layout \"E|t*6L\""));
  CHECK(has(flags(7), "--pipeline-model-parallel-layout \"Et*6|L\""));
  Plan counted = imported("megatron",
                          "--pipeline-model-parallel-size 4 --account-for-loss-in-pipeline-split "
                          "--micro-batch-size 1 --global-batch-size 8",
                          question_of(7, "4xh100"));
  CHECK(has(written("megatron", loaded_from(counted, question_of(7, "4xh100"))),
            "--account-for-loss-in-pipeline-split"));
}

TEST_CASE("plans that a format has no words for are refused") {
  const PlanQuestion question = question_of(4, "4xh100");
  const auto changed = [](auto change) {
    Plan plan = simple_plan();
    change(plan);
    return plan;
  };
  const Plan uneven = changed([](Plan& plan) { plan.stages[1].devices = {{1}, {2}}; });
  const Plan elsewhere = changed([](Plan& plan) { plan.stages[1].devices = {{3}}; });
  const Plan mixed = changed([](Plan& plan) { plan.stages[1].recompute = Recompute::full; });
  const Plan turns = changed([](Plan& plan) {
    plan.stages = {{{0, 6}, {{0}, {1}}, Recompute::none}};
    plan.replicas = ReplicaPolicy::round_robin;
  });
  for (const std::string_view format : {"megatron", "deepspeed", "torch"}) {
    INFO(format);
    CHECK(refusal(format, uneven, question).find("stage 0 has 1, stage 1 has 2") !=
          std::string::npos);
    CHECK(refusal(format, elsewhere, question).find("the plan has it elsewhere") !=
          std::string::npos);
    CHECK(refusal(format, mixed, question).find("in all stages or in none") != std::string::npos);
    CHECK(refusal(format, turns, question).find("take turns") != std::string::npos);
    CHECK(exit_code_of([&] { written(format, loaded_from(uneven, question)); }) == 3);
  }
  const Plan some = changed([](Plan& plan) {
    plan.stages[1].again.assign(static_cast<std::size_t>(plan.stages[1].layers.size()),
                                Recomputed::none);
    plan.stages[1].again.front() = Recomputed::full;
  });
  CHECK(
      refusal("megatron", some, question)
          .find(
              "the first 1 layers of every stage, or all of them, so many at a time; of stage 0") !=
      std::string::npos);
  CHECK_THAT(refusal("torch", some, question),
             ContainsSubstring("recomputes every transformer block by itself, or every second") &&
                 ContainsSubstring("of stage 1 the plan recomputes 1 of 3 layers"));
  const Plan head = changed([](Plan& plan) {
    plan.stages[1].again.assign(static_cast<std::size_t>(plan.stages[1].layers.size()),
                                Recomputed::full);
  });
  CHECK(refusal("megatron", head, question).find("recomputes transformer layers only") !=
        std::string::npos);
  CHECK_THAT(refusal("torch", head, question), ContainsSubstring("of stage 1 the plan recomputes"));
  const Plan attention = changed([](Plan& plan) {
    for (Stage& stage : plan.stages)
      stage.again.assign(static_cast<std::size_t>(stage.layers.size()), Recomputed::selective);
  });
  CHECK_THAT(refusal("torch", attention, question),
             ContainsSubstring("of stage 0 the plan recomputes selective"));
  const Plan zero_bubble = changed([](Plan& plan) { plan.schedule.name = "zb-h1"; });
  CHECK(refusal("megatron", zero_bubble, question).find("not zb-h1") != std::string::npos);
  CHECK(refusal("deepspeed", zero_bubble, question).find("not zb-h1") != std::string::npos);
  CHECK(refusal("hf-device-map", uneven, question).find("stage 1 has 2 replicas") !=
        std::string::npos);
  CHECK(refusal("hf-device-map", simple_plan(), question).empty());
  PlanQuestion chain = question;
  chain.profile.model.transformer.reset();
  CHECK(refusal("megatron", simple_plan(), chain).find("is not known as one") != std::string::npos);
}

TEST_CASE("all that stands in a plan's way is said at once") {
  const PlanQuestion question = question_of(4, "4xh100");
  Plan plan = simple_plan();
  plan.schedule.name = "zb-h1";
  plan.weights = WeightPolicy::stashing;
  plan.precision = Precision::float64;
  plan.stages[1].devices = {{3}};
  for (const Exporter& exporter : exporters) {
    INFO(exporter.name);
    const std::vector<std::string> reasons =
        reasons_against(exporter, plan, question.profile.model, question.cluster);
    CHECK(reasons.empty() == (exporter.reasons_against == nullptr ||
                              exporter.name == std::string_view("hf-device-map")));
    if (reasons.size() < 2 || exporter.write == nullptr) continue;
    const std::string complaint = refusal(exporter.name, plan, question);
    CHECK_THAT(complaint, ContainsSubstring(concat("for ", reasons.size(), " reasons: (1) ")));
    for (const std::string& reason : reasons) CHECK_THAT(complaint, ContainsSubstring(reason));
  }
  CHECK(reasons_against_megatron(plan, question.profile.model, question.cluster).size() == 4);
  CHECK(reasons_against_deepspeed(plan, question.profile.model, question.cluster).size() == 4);
  CHECK(reasons_against_megatron(simple_plan(), question.profile.model, question.cluster).empty());
}

TEST_CASE("a device map has every module once, and a table every stage") {
  const PlanQuestion question = question_of(4, "2xh100");
  const LoadedPlan loaded = loaded_from(simple_plan(), question);
  const Json map = Json::parse(written("hf-device-map", loaded), "map");
  CHECK(map.names().size() == 2 + 4 + 2);
  CHECK(map["transformer.wte"].integer() == 0);
  CHECK(map["transformer.h.3"].integer() == 1);
  CHECK(map["lm_head"].integer() == 1);
  const std::string table = written("csv", loaded);
  CHECK(table.find("\n0,0,3,embedding,block.1,") != std::string::npos);
  CHECK(table.find("\n1,3,6,block.2,head,") != std::string::npos);
  CHECK(table.ends_with(",1,1,1,none\n"));
}

TEST_CASE("exporters have names of their own") {
  std::set<std::string_view> names;
  for (const Exporter& exporter : exporters) {
    CHECK(names.insert(exporter.name).second);
    CHECK_FALSE(exporter.summary.empty());
  }
}
