#include <fmt/format.h>
#include <cmath>

#include "executor/data.hpp"
#include "executor/execute.hpp"
#include "planner/predict.hpp"
#include "profiles/cluster.hpp"
#include "profiles/error.hpp"
#include "tests/gpu/checks.hpp"

namespace stagecraft::gpu {

namespace {

/// A model cut into so many stages of equal layers, on 4 microbatches of one short sample.
Plan plan_of(const Model& model, int stages, Precision precision, BackendKind backend) {
  Plan plan{.model = model.name,
            .cluster = fmt::format("{}x{}", stages, backend == BackendKind::cuda ? "h200" : "cpu"),
            .precision = precision,
            .batch = {.global = 4, .microbatch = 1, .microbatches = 4, .sequence = 64},
            .schedule = {.name = "1f1b"}};
  const int layers = static_cast<int>(model.layers.size());
  for (int stage = 0; stage < stages; ++stage) {
    plan.stages.push_back(
        {.layers = {layers * stage / stages, layers * (stage + 1) / stages}, .devices = {{stage}}});
  }
  return plan;
}

struct Trial {
  Trial(const std::string& model, int stages, Precision precision, BackendKind on)
      : backend(on),
        profile{.model = builtin_model(model)},
        plan(plan_of(profile.model, stages, precision, on)),
        compiled(compile(plan, profile, parse_cluster(plan.cluster))),
        dataset(synthetic_dataset(profile.model.transformer->vocabulary, 20'000, 1)) {}

  RunResult run(int steps) const {
    return execute(plan, profile, compiled, dataset, {.steps = steps, .backend = backend});
  }

  BackendKind backend;
  Profile profile;
  Plan plan;
  Compiled compiled;
  Dataset dataset;
};

Outcome compare_losses(std::string name, const std::vector<double>& actual,
                       const std::vector<double>& expected, double tolerated) {
  double worst = actual.size() == expected.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < expected.size() && worst < INFINITY; ++i) {
    const double error = std::abs(actual[i] / expected[i] - 1);
    if (!(error <= worst)) worst = error;
  }
  return {.name = std::move(name),
          .words = fmt::format(
              "losses {:.5f} -> {:.5f} (CPU {:.5f} -> {:.5f}), apart by {:.2e}, at most {:.0e}",
              actual.front(), actual.back(), expected.front(), expected.back(), worst, tolerated),
          .passed = worst <= tolerated};
}

Outcome compare_bits(std::string name, const RunResult& run, const RunResult& alone) {
  const std::string difference = first_difference(run, alone);
  return {.name = std::move(name),
          .words = difference.empty() ? "the same bits" : difference,
          .passed = difference.empty()};
}

}  // namespace

void check_training(const TrainingChecks& checks, const Report& report) {
  const auto run = [&](int stages, Precision precision, BackendKind backend, int steps) {
    return Trial(checks.model, stages, precision, backend).run(steps);
  };
  const auto expected = run(1, Precision::float32, BackendKind::cpu, checks.steps).losses;
  for (const Precision precision : checks.precisions) {
    const std::string in = fmt::format(" in {}", to_string(precision));
    const RunResult alone = run(1, precision, checks.backend, checks.steps);
    report(compare_losses(fmt::format("{}{}, {} steps", checks.model, in, checks.steps),
                          alone.losses, expected, precision == Precision::bfloat16 ? 2e-2 : 1e-3));
    report(compare_bits("the same run again" + in, run(1, precision, checks.backend, checks.steps),
                        alone));
    for (const int stages : {2, 4}) {
      report(compare_bits(fmt::format("{} ranks beside one{}", stages, in),
                          run(stages, precision, checks.backend, checks.steps), alone));
    }
  }
}

}  // namespace stagecraft::gpu
