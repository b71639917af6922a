// Gradients clipped to the norm of all of them: the bits of one device, however the model is cut.

#include "executor/training/clipping.hpp"

#include "planner/costs/compile_with_norm.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"
#include "tests/executor/values.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Ready to run with the norm known before every update.
Prepared prepare_with_norm(const Setting& setting) {
  Prepared prepared = prepare(setting);
  prepared.compiled =
      compile_with_norm(prepared.plan, prepared.profile, parse_cluster(prepared.plan.cluster));
  return prepared;
}

/// By SGD at a rate of 1: how far the weights move in a step is the norm of what they moved by.
double distance_moved(double clip) {
  const Setting setting{.devices = 1, .optimizer = OptimizerKind::sgd};
  const Prepared prepared = prepare_with_norm(setting);
  RunOptions options{.steps = 1};
  options.sgd.learning_rate = 1;
  options.clip_norm = clip;
  const RunResult moved = run(prepared, options);
  RunOptions still = options;
  still.sgd.learning_rate = 1e-30;
  const RunResult start = run(prepared, still);
  double sum = 0;
  for (std::size_t i = 0; i < moved.parameters.size(); ++i) {
    const Values after = values(moved.parameters[i]), before = values(start.parameters[i]);
    for (std::size_t at = 0; at < after.size(); ++at) {
      sum += (after[at] - before[at]) * (after[at] - before[at]);
    }
  }
  return std::sqrt(sum);
}

constexpr double small = 0.01;  // a hundredth of what these gradients have

}  // namespace

TEST_CASE("gradients are scaled to the norm asked for, and left alone below it") {
  CHECK(clip_factor(0, std::vector{9.0, 16.0}) == 1);
  CHECK(clip_factor(5, std::vector{9.0, 16.0}) == 1);
  CHECK(clip_factor(4, std::vector{9.0, 16.0}) == 4.0 / 5);
  const double whole = distance_moved(1e6);
  CHECK(whole > 10 * small);
  CHECK(distance_moved(small) == Approx(small).epsilon(1e-3));
  CHECK(distance_moved(whole / 2) == Approx(whole / 2).epsilon(1e-3));
}

TEST_CASE("clipped training has the same bits on any number of devices") {
  const auto weights_of = [](int devices, const std::string& schedule, int virtual_stages) {
    const Setting setting{
        .schedule = schedule, .devices = devices, .virtual_stages = virtual_stages};
    RunOptions options{.steps = 3};
    options.clip_norm = small;
    return run(prepare_with_norm(setting), options).parameters_hash;
  };
  const std::string alone = weights_of(1, "1f1b", 1);
  CHECK(weights_of(2, "1f1b", 1) == alone);
  CHECK(weights_of(4, "gpipe", 1) == alone);
  CHECK(weights_of(3, "zb-h1", 1) == alone);
  CHECK(weights_of(2, "interleaved", 2) == alone);
  CHECK(weights_of(2, "zb-v", 2) == alone);
}

TEST_CASE("replicas, shards, pipes and ties clip by the norm that one device finds") {
  const Setting setting = GENERATE(from_range(std::vector<Setting>{
      {.devices = 3, .replicas = {2, 1, 2}, .style = Style::llama},
      {.schedule = "gpipe", .devices = 2, .replicas = {2, 2}, .sharding = Sharding::zero1},
      {.schedule = "gpipe",
       .devices = 2,
       .rows = 6,
       .replicas = {3, 1},
       .tied = false,
       .sharding = Sharding::zero1},
      {.schedule = "chimera", .devices = 2},
      {.schedule = "1f1b", .devices = 1, .replicas = {2}},
      {.devices = 2, .optimizer = OptimizerKind::sgd, .style = Style::network}}));
  INFO(describe(setting));
  const Prepared prepared = prepare_with_norm(setting);
  RunOptions options{.steps = 2};
  options.clip_norm = small;
  const RunResult clipped = run(prepared, options);
  CHECK(first_difference(clipped, reference(prepared, options)) == "");
  CHECK(first_difference(clipped, run(prepared, {.steps = 2})) != "");
}

TEST_CASE("tensor-parallel peers count each part of a weight once") {
  const Setting setting{
      .devices = 2, .optimizer = OptimizerKind::sgd, .tied = false, .degrees = {2, 1}};
  const Prepared prepared = prepare_with_norm(setting);
  RunOptions options{.steps = 2};
  options.clip_norm = small;
  options.sgd.learning_rate = 1;
  const Distance apart = distance(run(prepared, options), reference(prepared, options));
  CHECK(apart.weights < 1e-5);
}

TEST_CASE("what updates at times of its own has no norm to be clipped by") {
  const Prepared prepared = prepare({.schedule = "pipedream", .devices = 2, .tied = false});
  CHECK_THROWS_AS(
      compile_with_norm(prepared.plan, prepared.profile, parse_cluster(prepared.plan.cluster)),
      Error);
}
