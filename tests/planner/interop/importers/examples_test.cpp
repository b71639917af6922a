// Launch lines of published runs (tools/examples): what they import to, there and back, and the
// predicted step beside the published one. Nothing is fitted: costs are datasheets'.

#include <algorithm>
#include <filesystem>
#include <regex>
#include <utility>

#include "planner/calibration/recipe.hpp"
#include "planner/costs/predict.hpp"
#include "planner/interop/exporters.hpp"
#include "profiles/json.hpp"
#include "simulator/checks/check.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/interop/importers/questions.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

const std::filesystem::path folder = std::filesystem::path(source_folder()) / "tools/examples";

/// What a paper says of a step; `seconds` or the rate of a GPU.
struct Published {
  std::string name;  ///< of the model and of the file
  int nodes = 0;
  std::string node;
  double seconds = 0;
  double teraflops = 0;
  bool counts_recomputation = false;  ///< in the rate
  double error = 0;                   ///< reached: predicted over published step, less 1
  bool fits = true;                   ///< in memory, as predicted
};

const std::vector<Published> runs{
    {.name = "mt-nlg-530b", .nodes = 280, .node = "dgx-a100", .seconds = 60.1, .error = -0.224},
    {.name = "mt-nlg-530b", .nodes = 350, .node = "dgx-a100", .seconds = 50.2, .error = -0.231},
    {.name = "mt-nlg-530b", .nodes = 420, .node = "dgx-a100", .seconds = 44.4, .error = -0.250},
    {.name = "bloom-176b",
     .nodes = 48,
     .node = "8xa100-80gb@50Gb/s",
     .teraflops = 150,
     .counts_recomputation = true,
     .error = -0.146},
    {.name = "nemotron4-340b", .nodes = 768, .node = "hgx-h100", .seconds = 8.0, .error = 0.053},
    {.name = "llama3-405b",
     .nodes = 1024,
     .node = "hgx-h100",
     .teraflops = 430,
     .error = -0.039,
     .fits = false},
    {.name = "llama3-405b",
     .nodes = 2048,
     .node = "hgx-h100",
     .teraflops = 400,
     .error = -0.039,
     .fits = false},
    {.name = "deepseek-v3",
     .nodes = 256,
     .node = "8xh100@50GB/s,200GB/s",
     .seconds = 19.9,
     .error = 0.346,
     .fits = false},
};

PlanQuestion question_for(const std::string& name, int nodes, const std::string& node) {
  const std::string cluster = concat(nodes, "x", node);
  PlanQuestion question{.model_name = name,
                        .cluster_name = cluster,
                        .profile_hash = {},
                        .profile = {},
                        .model_content = {},
                        .cluster = parse_cluster(cluster),
                        .options = {}};
  question.profile.model = builtin_model(name);
  return question;
}

/// The example, on so many nodes.
std::string line_of(const Published& run) {
  const std::string text = read_file((folder / (run.name + ".sh")).string());
  return std::regex_replace(text, std::regex("--nnodes [0-9]+"), concat("--nnodes ", run.nodes));
}

/// Operations of a step: three times the forward's, and blocks' a fourth time where they are
/// recomputed and counted (Narayanan et al. 2021, equation 3).
double operations(const Published& run, const Model& model, const Plan& plan) {
  double sum = 0;
  for (const Layer& layer : model.layers) {
    const bool again = run.counts_recomputation && layer.kind == LayerKind::transformer;
    sum += (again ? 4 : 3) * layer.flops_forward;
  }
  return sum * static_cast<double>(plan.batch.global);
}

double published_seconds(const Published& run, const Model& model, const Plan& plan) {
  if (run.seconds > 0) return run.seconds;
  const auto devices = static_cast<double>(used_devices(plan).size());
  return operations(run, model, plan) / (run.teraflops * 1e12 * devices);
}

}  // namespace

TEST_CASE("launch lines of published runs: steps as predicted beside those published",
          "[seconds]") {
  for (const Published& run : runs) {
    const PlanQuestion question = question_for(run.name, run.nodes, run.node);
    const Plan plan = imported("megatron", line_of(run), question);
    CHECK(used_devices(plan).size() == static_cast<std::size_t>(8 * run.nodes));
    const Prediction prediction = predict(plan, question.profile, question.cluster);
    const double step = std::chrono::duration<double>(prediction.step).count();
    const double error = step / published_seconds(run, question.profile.model, plan) - 1;
    const auto peak = std::ranges::max(device_peaks(plan, prediction));
    INFO(run.name << " on " << run.nodes << " nodes: " << step << " s predicted, "
                  << published_seconds(run, question.profile.model, plan) << " s published, error "
                  << error << ", peak of " << peak << " bytes");
    CHECK(error == Approx(run.error).margin(0.005));
    CHECK(prediction.fits == run.fits);
  }
}

TEST_CASE("DeepSeek-V3 as it ran: under DualPipe, which hides messages between experts") {
  const Published& run = runs.back();
  const PlanQuestion question = question_for(run.name, run.nodes, run.node);
  Plan plan = imported("megatron", line_of(run), question);
  CHECK(plan.precision == Precision::float8);
  CHECK(plan.kernels.dispatcher == Dispatcher::deepep);
  // The model says on how many nodes a token's experts are.
  CHECK(plan.parallelism.expert_nodes == 0);
  const auto seconds_of = [&](const Plan& each) {
    return std::chrono::duration<double>(predict(each, question.profile, question.cluster).step)
        .count();
  };
  const double open = seconds_of(plan);
  plan.schedule = {.name = "dualpipe"};
  const double hidden = seconds_of(plan);
  INFO(open << " s under 1F1B, " << hidden << " s under DualPipe, " << run.seconds
            << " s published");
  CHECK(hidden < open);
  CHECK(hidden / run.seconds - 1 == Approx(-0.121).margin(0.005));
}

TEST_CASE("launch lines of published runs are exported as lines that give the same plan",
          "[seconds]") {
  for (const Published& run : runs) {
    INFO(run.name << " on " << run.nodes << " nodes");
    const PlanQuestion question = question_for(run.name, run.nodes, run.node);
    const Plan plan = imported("megatron", line_of(run), question);
    const LoadedPlan loaded{.plan = plan,
                            .profile = question.profile,
                            .cluster = question.cluster,
                            .path = "plan.json",
                            .hash = {}};
    if (run.name == "bloom-176b") {  // by a fork: no argument has its positions
      CHECK_THAT(message_of([&] { export_megatron(loaded); }), ContainsSubstring("ALiBi"));
      continue;
    }
    CHECK(imported("megatron", export_megatron(loaded), question) == plan);
  }
}

TEST_CASE("a replica of every published run is safe to carry out", "[seconds]") {
  std::string last;
  for (const Published& run : runs) {
    if (run.name == std::exchange(last, run.name)) continue;  // the same on other nodes
    INFO(run.name);
    const Plan plan =
        imported("megatron", line_of(run), question_for(run.name, run.nodes, run.node));
    const auto replicas = static_cast<std::int64_t>(plan.stages.front().devices.size());
    const int ranks = static_cast<int>(plan.stages.size()) / plan.schedule.virtual_stages;
    Published one = run;
    one.nodes = run.nodes / static_cast<int>(replicas);
    // A microbatch for each rank shows what many do.
    std::string line = std::regex_replace(
        line_of(one), std::regex("--global-batch-size [0-9]+"),
        concat("--global-batch-size ", ranks * plan.batch.microbatch / replicas));
    // One replica has all experts.
    line = std::regex_replace(line, std::regex("--expert-model-parallel-size [0-9]+"), "");
    const PlanQuestion question = question_for(one.name, one.nodes, one.node);
    const Plan alone = imported("megatron", line, question);
    CHECK(alone.batch.microbatches == ranks);
    const CheckReport report = check(compile(alone, question.profile, question.cluster).program);
    for (const Finding& finding : report.findings) FAIL_CHECK(finding.message);
    CHECK_FALSE(report.proved.empty());
  }
}

TEST_CASE("what sequence parallelism keeps of published runs, in closed form") {
  // Embedding and head of Llama 3 stand where a block would.
  const Recipe nemotron{.transformer = *builtin_model("nemotron4-340b").transformer,
                        .blocks = 96,
                        .device = "h100",
                        .pipeline = 12,
                        .virtual_stages = 8,
                        .data = 64,
                        .microbatches = 36,
                        .work = {.sequence = 4096, .tensor_parallel = 8},
                        .sharded_optimizer = true};
  Recipe llama = nemotron;
  llama.transformer = *builtin_model("llama3-405b").transformer;
  llama.blocks = 128;
  llama.pipeline = 16;
  llama.microbatches = 32;
  llama.work.sequence = 8192;
  llama.sharded_gradients = true;
  for (const auto& [recipe, gibibytes] : {std::pair{nemotron, 50.1}, {llama, 79.3}}) {
    CHECK(peak_memory(recipe).total() > Bytes{80} << 30);
    Recipe divided = recipe;
    divided.work.sequence_parallel = true;
    CHECK(static_cast<double>(peak_memory(divided).total()) / (1 << 30) ==
          Approx(gibibytes).margin(0.1));
  }
}

TEST_CASE("every example is a published run") {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".sh") continue;
    const std::string name = entry.path().stem().string();
    INFO(name);
    CHECK(std::ranges::find(runs, name, &Published::name) != runs.end());
  }
}
