#include <fmt/format.h>
#include <cmath>
#include <optional>

#include "executor/driver/execute.hpp"
#include "executor/values/data.hpp"
#include "planner/costs/predict.hpp"
#include "profiles/cluster.hpp"
#include "profiles/error.hpp"
#include "tests/gpu/checks.hpp"

namespace stagecraft::gpu {

namespace {

/// How the same training is carried out.
struct Way {
  std::string name;
  int stages = 1;
  std::string schedule = "1f1b";
  GraphUse graphs = GraphUse::automatic;
  bool partitions = false;
};

/// The model with another vocabulary.
Model model_of(const TrainingChecks& checks) {
  const Model known = builtin_model(checks.model);
  Transformer transformer = *known.transformer;
  transformer.vocabulary = checks.vocabulary;
  // All but the embedding and the head.
  const int blocks = static_cast<int>(known.layers.size()) - 2;
  return make_transformer(known.name, transformer, blocks, known.sequence);
}

/// A model cut into so many stages of equal layers, on 4 microbatches of one short sample.
Plan plan_of(const Model& model, const Way& way, Precision precision, const std::string& device) {
  Plan plan{.model = model.name,
            .cluster = fmt::format("{}x{}", way.stages, device),
            .precision = precision,
            .batch = {.global = 4, .microbatch = 1, .microbatches = 4, .sequence = 64},
            .schedule = {.name = way.schedule}};
  const int layers = static_cast<int>(model.layers.size());
  for (int stage = 0; stage < way.stages; ++stage) {
    plan.stages.push_back(
        {.layers = {layers * stage / way.stages, layers * (stage + 1) / way.stages},
         .devices = {{stage}}});
  }
  return plan;
}

RunResult run(const TrainingChecks& checks, const Way& way, Precision precision,
              BackendKind backend) {
  const Profile profile{.model = model_of(checks)};
  const Plan plan = plan_of(profile.model, way, precision,
                            backend == BackendKind::cuda ? checks.device : std::string("cpu"));
  const Compiled compiled = compile(plan, profile, parse_cluster(plan.cluster));
  const Dataset dataset = synthetic_dataset(checks.vocabulary, 20'000, 1);
  RunOptions options{.steps = checks.steps, .backend = backend};
  // Losses then fall without leaps, which would make much of what precisions round away.
  options.adamw.learning_rate = 1e-4;
  options.cuda.graphs = way.graphs;
  options.cuda.partitions = way.partitions;
  options.cuda.ranks = way.stages;
  return execute(plan, profile, compiled, dataset, options);
}

Outcome compare_losses(std::string name, const std::vector<double>& actual,
                       const std::vector<double>& expected, double tolerated) {
  double worst = actual.size() <= expected.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < actual.size() && worst < INFINITY; ++i) {
    const double error = std::abs(actual[i] / expected[i] - 1);
    if (!(error <= worst)) worst = error;
  }
  return {.name = std::move(name),
          .words =
              fmt::format("losses {:.5f} -> {:.5f} of {} steps (CPU {:.5f} -> {:.5f}), apart "
                          "by {:.2e}, at most {:.0e}",
                          actual.front(), actual.back(), actual.size(), expected.front(),
                          expected[std::min(actual.size(), expected.size()) - 1], worst, tolerated),
          .passed = worst <= tolerated};
}

Outcome compare_bits(std::string name, const RunResult& run, const RunResult& alone) {
  const std::string difference = first_difference(run, alone);
  return {.name = std::move(name),
          .words = difference.empty() ? "the same bits" : difference,
          .passed = difference.empty()};
}

/// One rank beside the CPU, and other ways beside one rank.
void check_ways(const TrainingChecks& checks, const std::vector<Way>& ways, const Report& report) {
  std::vector<double> expected = checks.expected;
  for (const Precision precision : checks.precisions) {
    const std::string in = fmt::format(" in {}", to_string(precision));
    std::optional<RunResult> alone;
    const auto alone_once = [&]() -> const RunResult& {
      if (!alone) alone = run(checks, {}, precision, checks.backend);
      return *alone;
    };
    const std::string name = checks.model + in + " beside the CPU in fp32";
    if (is_wanted(checks.wanted, name)) {
      if (expected.empty()) expected = losses_on_cpu(checks);
      report(compare_losses(name, alone_once().losses, expected,
                            precision == Precision::bfloat16 ? 2e-2 : 1e-3));
    }
    for (const Way& way : ways) {
      const std::string beside =
          fmt::format("{}{}, {}, beside one rank", checks.model, in, way.name);
      if (!is_wanted(checks.wanted, beside)) continue;
      const RunResult& one = alone_once();
      report(compare_bits(beside, run(checks, way, precision, checks.backend), one));
    }
  }
}

}  // namespace

std::vector<double> losses_on_cpu(const TrainingChecks& checks) {
  return run(checks, {}, Precision::float32, BackendKind::cpu).losses;
}

void check_training(const TrainingChecks& checks, const Report& report) {
  check_ways(
      checks,
      {{.name = "once more"}, {.name = "2 ranks", .stages = 2}, {.name = "4 ranks", .stages = 4}},
      report);
}

void check_pipelines(const TrainingChecks& checks, const Report& report) {
  const bool on_gpu = checks.backend == BackendKind::cuda;
  const GraphUse on = on_gpu ? GraphUse::on : GraphUse::automatic;
  const GraphUse off = on_gpu ? GraphUse::off : GraphUse::automatic;
  std::vector<Way> ways{{.name = "once more"},
                        {.name = "graphs on", .graphs = on},
                        {.name = "graphs off", .graphs = off}};
  // What says most comes first: there may be no time for all.
  const auto add_pipelines = [&](const std::string& words, GraphUse graphs, bool partitions) {
    for (const int stages : {4, 2}) {
      for (const std::string schedule : {"1f1b", "zb-h1"}) {
        ways.push_back({fmt::format("{} ranks by {}{}", stages, schedule, words), stages, schedule,
                        graphs, partitions});
      }
    }
  };
  add_pipelines("", on, false);
  if (on_gpu) add_pipelines(" on parts", on, true);
  add_pipelines(", graphs off", off, false);
  check_ways(checks, ways, report);
}

}  // namespace stagecraft::gpu
