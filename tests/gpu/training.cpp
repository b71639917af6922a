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

/// GPT-2 124M cut into so many stages of equal layers, on 4 microbatches of one short sample.
Plan plan_of(const Model& model, int stages, Precision precision) {
  Plan plan{.model = model.name,
            .cluster = fmt::format("{}xh200", stages),
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
  Trial(int stages, Precision precision)
      : profile{.model = builtin_model("gpt2-124m")},
        plan(plan_of(profile.model, stages, precision)),
        compiled(compile(plan, profile, parse_cluster(plan.cluster))),
        dataset(synthetic_dataset(profile.model.transformer->vocabulary, 20'000, 1)) {}

  RunResult run(BackendKind backend, int steps) const {
    return execute(plan, profile, compiled, dataset, {.steps = steps, .backend = backend});
  }
  RunResult reference(BackendKind backend, int steps) const {
    return run_reference(plan, profile, dataset, {.steps = steps, .backend = backend});
  }

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
  return {
      .name = std::move(name),
      .words = fmt::format("losses {:.5f} -> {:.5f} (CPU {:.5f} -> {:.5f}), apart by {:.2e}",
                           actual.front(), actual.back(), expected.front(), expected.back(), worst),
      .passed = worst <= tolerated};
}

}  // namespace

void check_training(int steps, const Report& report) {
  const auto losses_on = [&](BackendKind backend, Precision precision) {
    return Trial(1, precision).run(backend, steps).losses;
  };
  const auto expected = losses_on(BackendKind::cpu, Precision::float32);
  report(compare_losses("GPT-2 124M in fp32", losses_on(BackendKind::cuda, Precision::float32),
                        expected, 1e-4));
  report(compare_losses("GPT-2 124M in bf16", losses_on(BackendKind::cuda, Precision::bfloat16),
                        expected, 1e-2));
  for (const Precision precision : {Precision::float32, Precision::bfloat16}) {
    const Trial trial(2, precision);
    const std::string difference = first_difference(trial.run(BackendKind::cuda, steps),
                                                    trial.reference(BackendKind::cuda, steps));
    report({.name = fmt::format("two ranks beside one in {}", to_string(precision)),
            .words = difference.empty() ? "the same bits" : difference,
            .passed = difference.empty()});
  }
}

}  // namespace stagecraft::gpu
