// Experiments as their papers published them, replayed through the whole line: profile, plan,
// prediction. Each says what was published, and within what it must be predicted.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "planner/costs/predict.hpp"
#include "planner/costs/shared_links.hpp"
#include "profiles/estimate.hpp"
#include "simulator/engines/events.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
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

namespace {

/// PipeDream's 15-1 of a profile cut there, in the steady state, over data parallelism: sixteen
/// devices with a port each of 1 GB/s, there and back one after the other as in PipeDream's cost
/// model, that sum at 0.33 GB/s.
double fifteen_to_one_speedup(const std::string& model, int cut) {
  const LoadedProfile loaded =
      load_profile(shared_folder() + "/data/pipedream/" + model + "/graph.txt");
  Problem problem = problem_of(
      loaded.profile, parse_cluster("16xgeneric@0.5GB/s:0ms:collective=0.33GB/s"), 16, {1});
  Plan everywhere = equal_stages(problem, 1, 16);
  everywhere.replicas = ReplicaPolicy::round_robin;
  const double data_parallel = rate_of(problem, everywhere);

  problem.global_batch = 150;
  Plan plan = equal_stages(problem, 2, 1);
  plan.replicas = ReplicaPolicy::round_robin;
  plan.stages[0].layers.end = plan.stages[1].layers.first = cut;
  plan.stages[0].devices.clear();
  for (int device = 0; device < 15; ++device) plan.stages[0].devices.push_back({device});
  plan.stages[1].devices = {{15}};
  Duration sum{0};
  const auto shared_step = [&](int times) {
    Plan longer = plan;
    longer.batch.global *= times;
    longer.batch.microbatches *= times;
    const Compiled compiled = compile(longer, problem.profile, problem.cluster);
    Environment environment;
    environment.network =
        shared_network(compiled.program, compiled.costs, used_devices(longer), problem.cluster, {});
    sum = compiled.costs.groups.front();
    return step_time(simulate_events(compiled.program, compiled.costs, environment));
  };
  // What more minibatches add has no flush in it, and no sum: replicas sum once a round, beside the
  // next one, as PipeDream's cost model has it. There is time for it.
  const Duration more = shared_step(3) - shared_step(2);
  CHECK(sum < more / 10);
  return 150 / seconds(more) / data_parallel;
}

}  // namespace

TEST_CASE("PipeDream's 15-1 over data parallelism is 5.28x for VGG-16 and 4.92x for AlexNet") {
  // Narayanan et al. 2019, table 1, cluster A. One bandwidth of sums explains both rows.
  if (!std::filesystem::exists(shared_folder() + "/data/pipedream")) {
    SKIP("no reference data at " + shared_folder());
  }
  CHECK(fifteen_to_one_speedup("vgg16", 31) == Approx(5.28).epsilon(0.1));
  CHECK(fifteen_to_one_speedup("alexnet", 13) == Approx(4.92).epsilon(0.1));
}

namespace {

/// GPT of the paper's sizes on servers of eight V100 of 16 GB.
Problem gpt_on_v100(std::int64_t hidden, int blocks, int heads, const std::string& cluster,
                    std::int64_t batch, std::int64_t microbatch) {
  const Transformer transformer{.hidden = hidden,
                                .heads = heads,
                                .key_value_heads = heads,
                                .head_width = hidden / heads,
                                .feed_forward = 4 * hidden,
                                .vocabulary = 50304,
                                .positions = 512,
                                .tied_head = false};
  Problem problem = transformer_problem(transformer, blocks, 512, cluster, Precision::float16);
  problem.global_batch = batch;
  problem.microbatches = {microbatch};
  return problem;
}

/// Every layer is recomputed by itself.
Plan layer_by_layer(Plan plan) {
  for (Stage& stage : plan.stages) {
    stage.again.assign(static_cast<std::size_t>(stage.layers.size()), Recomputed::full);
  }
  return plan;
}

Plan double_buffered(Problem& problem, int stages, int replicas) {
  const auto group = static_cast<int>(problem.global_batch / problem.microbatches.front());
  problem.schedules = {{.name = "pipedream-2bw", .group = group}};
  Plan plan = layer_by_layer(equal_stages(problem, stages, replicas));
  plan.weights = WeightPolicy::double_buffered;
  return plan;
}

Plan flushed(Problem& problem, int stages, int replicas, const std::string& schedule = "1f1b") {
  problem.schedules = {{.name = schedule}};
  return layer_by_layer(equal_stages(problem, stages, replicas));
}

double double_buffered_speedup(Problem problem, int stages, int replicas) {
  const Plan twice = double_buffered(problem, stages, replicas);
  const double rate = rate_of(problem, twice);
  return rate / rate_of(problem, flushed(problem, stages, replicas));
}

}  // namespace

TEST_CASE("PipeDream-2BW over PipeDream-Flush on 64 V100: up to 1.6x, 1.15x for 2048 samples") {
  // Narayanan et al. 2021, section 5; microbatches of eight samples per replica.
  struct Shape {
    std::int64_t hidden;
    int stages;
  };
  for (const Shape& shape : {Shape{2304, 8}, Shape{3072, 16}}) {
    const int replicas = 64 / shape.stages;
    const auto speedup = [&](std::int64_t batch) {
      return double_buffered_speedup(
          gpt_on_v100(shape.hidden, 32, 32, "8x8xv100@25Gb/s", batch, 8 * replicas), shape.stages,
          replicas);
    };
    CAPTURE(shape.hidden);
    CHECK(std::abs(speedup(512) - 1.6) < 0.15);
    CHECK(std::abs(speedup(2048) - 1.15) < 0.05);
  }
}

TEST_CASE("PipeDream-2BW of GPT 3.8B over tensor parallelism in pairs of servers is about 20x") {
  Problem problem = gpt_on_v100(3072, 32, 32, "8x8xv100@25Gb/s", 512, 32);
  const double rate = rate_of(problem, double_buffered(problem, 16, 4));
  // Sixteen peers whose messages all cross from server to server.
  Problem tensor = gpt_on_v100(3072, 32, 32, "4x16xv100@25Gb/s,25Gb/s", 512, 32);
  tensor.tensor_parallel = {16};
  const double over = rate / rate_of(tensor, flushed(tensor, 1, 4));
  INFO(over << "x");
  CHECK(over > 10);
  CHECK(over < 32);
}

TEST_CASE("memory of GPT 2.2B on eight V100: PipeDream-Flush below 2BW below GPipe") {
  // Figure 7.
  for (const std::int64_t batch : {64, 256}) {
    CAPTURE(batch);
    const auto peak = [](const Problem& problem, Plan plan) {
      // Two batches: the second meets two versions.
      plan.batch.global *= 2;
      plan.batch.microbatches *= 2;
      return std::ranges::max(device_peaks(plan, predict(plan, problem.profile, problem.cluster)));
    };
    Problem problem = gpt_on_v100(2304, 32, 32, "8xv100", batch, 8);
    const Bytes twice = peak(problem, double_buffered(problem, 8, 1));
    const Bytes once = peak(problem, flushed(problem, 8, 1));
    const Bytes all_forwards = peak(problem, flushed(problem, 8, 1, "gpipe"));
    CHECK(once < twice);
    CHECK(twice < all_forwards);
  }
}

TEST_CASE("GPT of 28 billion parameters fits on 64 V100 in 64 stages") {
  Problem problem = gpt_on_v100(1024, 2240, 16, "8x8xv100@25Gb/s", 128, 1);
  Plan plan = double_buffered(problem, 64, 1);
  plan.schedule.group = 64;
  CHECK(parameters(problem.profile.model) > 28'000'000'000);
  const Prediction prediction = predict(plan, problem.profile, problem.cluster);
  CHECK(prediction.fits);
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
