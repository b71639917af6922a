// Experiments as their papers published them, replayed through the whole line: profile, plan,
// prediction. Each says what was published, and within what it must be predicted.

#include <numeric>

#include "planner/predict.hpp"
#include "profiles/estimate.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

double step_of(const Problem& problem, Plan plan, int times) {
  plan.batch.global *= times;
  plan.batch.microbatches *= times;
  return seconds(predict(plan, problem.profile, problem.cluster).step);
}

/// Samples, or minibatches, per second; of schedules that never drain what a longer run adds.
double rate_of(const Problem& problem, const Plan& plan) {
  const auto samples = static_cast<double>(plan.batch.global);
  if (plan.weights == WeightPolicy::flush) return samples / step_of(problem, plan, 1);
  return samples / (step_of(problem, plan, 3) - step_of(problem, plan, 2));
}

Plan equal_stages(const Problem& problem, int stages, int replicas, int virtual_stages = 1) {
  const int layers = static_cast<int>(problem.profile.model.layers.size());
  const int chunks = stages * virtual_stages;
  const std::int64_t microbatch = problem.microbatches.front();
  Plan plan{.model = problem.model_name,
            .cluster = problem.cluster_name,
            .precision = problem.precision,
            .batch = {.global = problem.global_batch,
                      .microbatch = microbatch,
                      .microbatches = static_cast<int>(problem.global_batch / microbatch),
                      .sequence = problem.sequence},
            .schedule = problem.schedules.front(),
            .optimizer = problem.optimizer};
  const int degree = problem.tensor_parallel.front();
  // Embedding and head of a transformer go with the ends.
  const int ends = problem.profile.model.transformer ? 1 : 0;
  const auto cut = [&](int chunk) {
    if (chunk == 0) return 0;
    return chunk == chunks ? layers : ends + (layers - 2 * ends) * chunk / chunks;
  };
  for (int chunk = 0; chunk < chunks; ++chunk) {
    Stage stage{.layers = {cut(chunk), cut(chunk + 1)}, .recompute = problem.recompute.front()};
    for (int replica = 0; replica < replicas; ++replica) {
      auto& peers = stage.devices.emplace_back(static_cast<std::size_t>(degree));
      std::iota(peers.begin(), peers.end(), ((chunk % stages) * replicas + replica) * degree);
    }
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

/// A decoder of so many blocks, with costs from the datasheet.
Problem transformer_problem(const Transformer& transformer, int blocks, std::int64_t sequence,
                            const std::string& cluster, Precision precision) {
  Problem problem;
  problem.model_name = "transformer";
  problem.cluster_name = cluster;
  problem.profile.model = make_transformer("transformer", transformer, blocks, sequence);
  problem.cluster = parse_cluster(cluster);
  problem.precision = precision;
  problem.sequence = sequence;
  return problem;
}

}  // namespace

TEST_CASE("PipeDream-2BW over PipeDream-Flush is 1 + (d - 1) / m without communication") {
  // Narayanan et al. 2021, section 3.
  for (const auto& [depth, microbatches] :
       {std::pair{8, 8}, std::pair{16, 16}, std::pair{8, 32}, std::pair{16, 64}}) {
    CAPTURE(depth, microbatches);
    const std::vector<LayerCost> costs(static_cast<std::size_t>(depth), layer_cost(10ms, 20ms));
    Problem problem = problem_of(profile_of(costs), cluster_of({{depth, {}}}), microbatches, {1},
                                 {"pipedream-2bw"});
    problem.objective = ObjectiveKind::throughput;
    Plan twice = equal_stages(problem, depth, 1);
    twice.weights = WeightPolicy::double_buffered;
    Problem flushed = problem;
    flushed.schedules = {{.name = "1f1b"}};
    const double speedup =
        rate_of(problem, twice) / rate_of(flushed, equal_stages(flushed, depth, 1));
    CHECK(speedup == Approx(1 + (depth - 1.0) / microbatches).epsilon(1e-9));
  }
}

TEST_CASE("GPipe on P100 without NVLink: 1, 1.8 and 3.3 on 2, 4 and 8 devices") {
  // Huang et al. 2019, table 3, Transformer-24 with 32 microbatches, in balance: a chain of its
  // blocks, as a P100 should take for them. Without messages it would be 1, 1.89 and 3.38.
  const Transformer transformer{.hidden = 2048,
                                .heads = 32,
                                .key_value_heads = 32,
                                .head_width = 64,
                                .feed_forward = 8192,
                                .vocabulary = 32000,
                                .positions = 1024};
  Profile estimated;
  estimated.model = make_transformer("transformer", transformer, 24, 1024);
  const LayerCost block = layer_costs(estimated, builtin_device_kind("p100"),
                                      {.device = "p100", .microbatch = 1, .sequence = 1024})[1];
  Problem problem =
      problem_of(profile_of(std::vector<LayerCost>(24, block)),
                 parse_cluster("8xgeneric@12GB/s:10us:collective=10GB/s"), 32, {1}, {"gpipe"});
  problem.recompute = {Recompute::full};
  std::vector<double> rates;
  for (const int devices : {2, 4, 8})
    rates.push_back(rate_of(problem, equal_stages(problem, devices, 1)));
  INFO(rates[1] / rates[0] << "x, " << rates[2] / rates[0] << "x");
  CHECK(rates[1] / rates[0] == Approx(1.8).epsilon(0.08));
  CHECK(rates[2] / rates[0] == Approx(3.3).epsilon(0.08));
}

TEST_CASE("torchtitan's Llama 3.1 405B on 512 H100: interleaved over 1F1B is 1.28x") {
  // Its benchmarks of December 2024, table 5: FSDP 8, tensor 8, pipeline 8, a local batch of 32 in
  // as many microbatches as stages, all recomputed: 100 and 128 tokens per second and device.
  const Model model = builtin_model("llama3-405b");
  Problem problem =
      transformer_problem(*model.transformer, 126, 8192, "64x8xh100@400Gb/s", Precision::bfloat16);
  problem.microbatches = {32};
  problem.global_batch = 256;
  problem.tensor_parallel = {8};
  problem.recompute = {Recompute::full};
  problem.schedules = {{.name = "1f1b"}};
  const double plain = rate_of(problem, equal_stages(problem, 8, 8));
  problem.schedules = {{.name = "interleaved", .virtual_stages = 2}};
  const double interleaved = rate_of(problem, equal_stages(problem, 8, 8, 2));
  INFO(interleaved / plain << "x, published 1.28x");
  CHECK(interleaved / plain == Approx(1.28).epsilon(0.06));
}
