// A layer takes the same in a plan and in the ledger, as far as a plan can say what ran.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/calibration/measured_runs.hpp"
#include "planner/costs/cost_book.hpp"
#include "planner/costs/predict.hpp"
#include "planner/interop/importers.hpp"
#include "planner/plan/layer_names.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// What a plan cannot say is as plans take it: fused attention, a loss in fp32, gradients in fp32,
/// no dropout, nothing beside anything.
Recipe as_planned(Recipe recipe) {
  recipe.work.fused_attention = recipe.work.grouped_experts = true;
  recipe.work.dropout = false;
  recipe.work.gradient_bytes = 4;
  recipe.overlapped_gradients = recipe.overlapped_parameters = recipe.overlapped_messages = false;
  recipe.overlapped_transfers = recipe.overlapped_exchanges = false;
  recipe.float8_gathers = false;
  recipe.sharded_optimizer = recipe.sharded_gradients = recipe.sharded_parameters = false;
  return recipe;
}

/// A few of its blocks on the devices of one stage of one replica, for one microbatch.
Recipe one_stage_of(Recipe recipe) {
  recipe = as_planned(std::move(recipe));
  recipe.pipeline = recipe.virtual_stages = recipe.data = recipe.microbatches = 1;
  recipe.first_stage_blocks = recipe.last_stage_blocks = 0;
  recipe.blocks = 3;
  recipe.transformer.prediction_modules = 0;
  return recipe;
}

struct PlannedStage {
  double passes = 0, update = 0;  ///< nanoseconds
  int layers = 0;
};

PlannedStage stage_of_plan(const Recipe& recipe) {
  const WorkSetting& work = recipe.work;
  const int peers = work.tensor_parallel * work.context_parallel;
  const int devices = std::max(peers, work.expert_parallel * work.expert_tensor_parallel);
  const int node = recipe.devices_per_node;
  const Cluster cluster = parse_cluster(
      devices <= node ? concat(devices, "x", recipe.device)
                      : concat((devices + node - 1) / node, "x", node, "x", recipe.device));
  const Profile profile{
      .model = make_transformer("run", recipe.transformer, recipe.blocks, work.sequence),
      .entries = {}};
  CostBookSetting setting{.precision = work.precision,
                          .sequence = work.sequence,
                          .parallelism = {.sequence = work.sequence_parallel,
                                          .context = work.context_parallel,
                                          .expert = work.expert_parallel,
                                          .expert_tensor = work.expert_tensor_parallel,
                                          .expert_load = work.expert_load},
                          .kernels = {.framework = work.framework,
                                      .dispatcher = work.dispatcher,
                                      .graphs = recipe.graphs,
                                      .float8_recipe = work.float8_recipe,
                                      .fused_loss = work.fused_loss,
                                      .router_fusion = work.router_fusion,
                                      .overlap = {.tensor = recipe.overlapped_messages,
                                                  .experts = recipe.overlapped_exchanges},
                                      .again = recipe.again}};
  const Recomputed what = recipe.again.empty() ? work.recompute : Recomputed::selective;
  const int layers = static_cast<int>(profile.model.layers.size());
  for (const Layer& layer : profile.model.layers)
    setting.again.push_back(is_block(layer) ? what : Recomputed::none);
  CostBook book(profile, cluster, setting);
  const CostTable& table = book.table(0, work.microbatch, work.microbatch, peers);
  const LayerRange all{0, layers};
  return {.passes = static_cast<double>((table.forward(all) + table.backward(all)).count()),
          .update = static_cast<double>(table.update(all).all.count()),
          .layers = layers};
}

/// A plan's costs are whole nanoseconds: each of a layer's three passes is off by half of one at
/// most.
void check_equal(const Recipe& recipe) {
  const StepSeconds step = step_seconds(recipe, usual_constants(recipe.device));
  const PlannedStage stage = stage_of_plan(recipe);
  CHECK(std::abs(stage.passes - 1e9 * step.work) <= 1.5 * stage.layers + 1);
  CHECK(std::abs(stage.update - 1e9 * step.update) <= 0.5 * stage.layers + 1);
}

}  // namespace

TEST_CASE("layers and updates take the same in a plan and in the ledger", "[doors]") {
  for (const std::string_view model : {"llama3-8b", "gpt3-175b", "mixtral-8x7b", "deepseek-v2"}) {
    for (const int tensor : {1, 2, 8}) {
      for (const int context : {1, 2}) {
        for (const Precision precision :
             {Precision::bfloat16, Precision::float8, Precision::float8_with_attention}) {
          INFO(model << ", tensor " << tensor << ", context " << context << ", "
                     << to_string(precision));
          Recipe recipe;
          recipe.transformer = *builtin_model(model).transformer;
          if (recipe.transformer.experts) recipe.transformer.experts->dense_blocks = 1;
          recipe.device = "h100";
          recipe.work = {.microbatch = 2,
                         .sequence = 2048,
                         .tensor_parallel = tensor,
                         .sequence_parallel = tensor > 2,
                         .context_parallel = context,
                         .precision = precision};
          check_equal(one_stage_of(recipe));
          recipe.work.fused_loss = tensor == 2 ? FusedLoss::native : FusedLoss::te;
          recipe.work.float8_recipe = Float8Recipe::tensorwise;
          check_equal(one_stage_of(recipe));
          recipe.work.fused_loss = FusedLoss::none;
          recipe.overlapped_messages = true;
          check_equal(one_stage_of(recipe));
          recipe.overlapped_messages = false;
          recipe.work.framework = Framework::torch;
          check_equal(one_stage_of(recipe));
        }
      }
    }
  }
}

namespace {

/// Files of a folder that hold published runs, each with the kind of device that the folder's or
/// file's name ends in.
std::vector<std::pair<std::filesystem::path, std::string>> files_below(
    const std::filesystem::path& folder) {
  std::vector<std::pair<std::filesystem::path, std::string>> files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::filesystem::path& path = entry.path();
    const std::string name =
        path.extension() == ".csv" ? path.stem().string() : path.parent_path().filename().string();
    files.emplace_back(path, name.substr(name.rfind("--") + 2));
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

TEST_CASE("layers of each published run take the same in a plan and in the ledger", "[doors]") {
  const std::filesystem::path folder =
      std::filesystem::path(shared_folder()) / "oracles" / "measured-training";
  if (!std::filesystem::exists(folder)) SKIP("no published runs");
  // Tables name models by their path from here.
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  std::size_t runs = 0;
  std::set<std::string> seen;
  for (const char* of : {"logs", "runs"}) {
    for (const auto& [path, device] : files_below(of)) {
      const std::string content = read_file(path);
      const RunFormat* format = run_format_of(content);
      REQUIRE(format != nullptr);
      const bool names_device = format->name == "runs";
      for (const MeasuredRun& run :
           format->read(content, path.string(), {.device = names_device ? "" : device})) {
        INFO(path.string() << ": " << run.label);
        ++runs;
        CHECK(run.left_out.empty());
        // Runs of more devices or a larger batch have the same layers.
        const std::string layers =
            concat(run.model, shape_of(run.recipe), device, prediction_in_words(run.recipe));
        if (!run.recipe.layers.empty() || !seen.insert(layers).second) continue;
        if (is_watched && seen.size() % 4 != 0) continue;
        check_equal(one_stage_of(run.recipe));
      }
    }
  }
  std::filesystem::current_path(before);
  CHECK(runs >= 431);
  CHECK(seen.size() > 40);
}

TEST_CASE("exchanges between experts take the same in a plan and in the ledger", "[doors]") {
  for (const std::string_view model : {"mixtral-8x7b", "deepseek-v2"}) {
    for (const int experts_over : {2, 8, 16, 40}) {
      for (const Dispatcher dispatcher : {Dispatcher::alltoall, Dispatcher::deepep}) {
        for (const CudaGraphs graphs : {CudaGraphs::none, CudaGraphs::layers, CudaGraphs::step}) {
          INFO(model << ", experts over " << experts_over << ", " << to_string(dispatcher) << ", "
                     << to_string(graphs));
          Recipe recipe;
          recipe.transformer = *builtin_model(model).transformer;
          recipe.transformer.experts->dense_blocks = 1;
          if (recipe.transformer.experts->count % experts_over != 0) continue;
          recipe.device = "h100";
          recipe.work = {.microbatch = 1,
                         .sequence = 4096,
                         .expert_parallel = experts_over,
                         .expert_tensor_parallel = 1,
                         .precision = Precision::bfloat16,
                         .dispatcher = dispatcher};
          recipe.graphs = graphs;
          recipe = one_stage_of(recipe);
          for (const bool overlapped : {false, true}) {
            recipe.overlapped_exchanges = overlapped;
            const double planned = stage_of_plan(recipe).passes;
            const double ledger = 1e9 * step_seconds(recipe, usual_constants(recipe.device)).work;
            CHECK(planned == Approx(ledger).epsilon(1e-6));
          }
          recipe.work.router_fusion = RouterFusion::on;
          CHECK(stage_of_plan(recipe).passes ==
                Approx(1e9 * step_seconds(recipe, usual_constants(recipe.device)).work)
                    .epsilon(1e-6));
        }
      }
    }
  }
}

TEST_CASE("modules done again take the same in a plan and in the ledger", "[doors][recompute]") {
  for (const std::string_view model : {"llama3-8b", "mixtral-8x7b", "deepseek-v2"}) {
    for (const char* modules : {"core_attn", "layernorm", "mlp", "moe_act", "moe", "shared_experts",
                                "mla_up_proj+layernorm+moe_act", "core_attn+moe"}) {
      for (const int tensor : {1, 4}) {
        for (const int context : {1, 2}) {
          if (is_watched && (tensor == 1) != (context == 1)) continue;
          INFO(model << ", " << modules << ", tensor " << tensor << ", context " << context);
          Recipe recipe;
          recipe.transformer = *builtin_model(model).transformer;
          const bool has_experts = recipe.transformer.experts.has_value();
          if (has_experts) recipe.transformer.experts->dense_blocks = 1;
          recipe.device = "h100";
          recipe.work = {.microbatch = 1,
                         .sequence = 4096,
                         .tensor_parallel = tensor,
                         .sequence_parallel = tensor > 1,
                         .context_parallel = context,
                         .expert_parallel = has_experts ? 8 / tensor : 1,
                         .expert_tensor_parallel = has_experts ? tensor : 0,
                         .precision = Precision::bfloat16};
          recipe = one_stage_of(recipe);
          const double none = stage_of_plan(recipe).passes;
          recipe.again = read_layer_modules(modules);
          const double planned = stage_of_plan(recipe).passes;
          const double ledger = 1e9 * step_seconds(recipe, usual_constants(recipe.device)).work;
          CHECK(planned == Approx(ledger).epsilon(1e-6));
          const Model whole = make_transformer("run", recipe.transformer, recipe.blocks, 4096);
          const LayerModules absent = recipe.again.without(modules_of(whole));
          CHECK((planned > none) == (absent != recipe.again));
        }
      }
    }
  }
}

namespace {

struct Launch {
  int tensor = 1, pipeline = 1, virtual_stages = 1, context = 1;
  Sharding sharding = Sharding::none;
  Framework kernels = Framework::megatron;
};

constexpr int devices_of_launch = 8, batch_of_launch = 64;

/// As Megatron-LM's launch has it: stages of equally many blocks.
Duration step_of_plan(const Model& model, const Launch& launch) {
  std::string flags =
      concat("--tensor-model-parallel-size ", launch.tensor, " --pipeline-model-parallel-size ",
             launch.pipeline, " --context-parallel-size ", launch.context,
             " --micro-batch-size 1 --bf16 --seq-length ", model.sequence, " --global-batch-size ",
             batch_of_launch);
  if (launch.virtual_stages > 1) {
    flags += concat(" --num-layers-per-virtual-pipeline-stage ",
                    decoder_layers(model).size() / launch.pipeline / launch.virtual_stages);
  }
  if (launch.tensor > 1) flags += " --sequence-parallel";
  if (launch.sharding == Sharding::zero1) flags += " --use-distributed-optimizer";
  PlanQuestion question{.cluster_name = "8xh100",
                        .profile = {.model = model, .entries = {}},
                        .cluster = parse_cluster("8xh100")};
  question.options.kernels = launch.kernels;
  const auto megatron = std::ranges::find(plan_importers, "megatron", &PlanImporter::name);
  const Plan plan = import_plan(*megatron, flags, "launch", question).plan;
  return predict(plan, question.profile, question.cluster).step;
}

double seconds_of_recipe(const Model& model, const Launch& launch) {
  const int peers = launch.tensor * launch.context * launch.pipeline;
  Recipe recipe;
  recipe.transformer = *model.transformer;
  recipe.blocks = decoder_layers(model).size();
  recipe.device = "h100";
  recipe.pipeline = launch.pipeline;
  recipe.virtual_stages = launch.virtual_stages;
  recipe.data = devices_of_launch / peers;
  recipe.microbatches = batch_of_launch / recipe.data;
  recipe.work = {.sequence = model.sequence,
                 .tensor_parallel = launch.tensor,
                 .sequence_parallel = launch.tensor > 1,
                 .context_parallel = launch.context,
                 .precision = Precision::bfloat16,
                 .framework = launch.kernels};
  recipe.sharded_optimizer = launch.sharding == Sharding::zero1;
  validate(recipe);
  return step_seconds(recipe, usual_constants(recipe.device)).step;
}

}  // namespace

TEST_CASE("a launch takes the same as a plan and in the ledger, but for messages", "[doors]") {
  Transformer transformer = *builtin_model("llama3-8b").transformer;
  const Model model = make_transformer("eight", transformer, 8, 4096);
  double most = 0;
  for (const Launch& launch :
       {Launch{}, Launch{.tensor = 2}, Launch{.tensor = 4, .context = 2}, Launch{.tensor = 8},
        Launch{.pipeline = 2}, Launch{.tensor = 2, .pipeline = 4}, Launch{.pipeline = 8},
        Launch{.pipeline = 4, .virtual_stages = 2},
        Launch{.tensor = 2, .pipeline = 2, .virtual_stages = 4}}) {
    for (const Sharding sharding : {Sharding::none, Sharding::zero1}) {
      for (const Framework kernels : {Framework::megatron, Framework::torch}) {
        if (is_watched && (sharding == Sharding::none) != (kernels == Framework::torch)) continue;
        Launch one = launch;
        one.sharding = sharding;
        one.kernels = kernels;
        const double planned = seconds(step_of_plan(model, one));
        const double recipe = seconds_of_recipe(model, one);
        UNSCOPED_INFO("tensor " << one.tensor << " pipeline " << one.pipeline << " x "
                                << one.virtual_stages << " context " << one.context << " "
                                << to_string(sharding) << " " << to_string(kernels) << ": plan "
                                << planned << " s, ledger " << recipe << " s, "
                                << 100 * (planned / recipe - 1) << " %");
        most = std::max(most, std::abs(planned / recipe - 1));
        // Nobody to sum with, and nobody to hand on to.
        if (one.tensor == devices_of_launch) CHECK(planned == Approx(recipe).epsilon(1e-6));
      }
    }
  }
  CHECK(most < 0.022);
}
