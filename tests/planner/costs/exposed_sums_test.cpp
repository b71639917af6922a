#include "planner/costs/exposed_sums.hpp"
#include "planner/costs/predict.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

constexpr Bytes megabyte = 1'000'000;

/// Layers of 10 ms and 20 ms whose gradients, of `bytes` each, eight devices sum at 1 GB/s.
Problem alike_layers(int layers, Bytes bytes, Duration latency = 0ms) {
  LayerCost cost = layer_cost(10ms, 20ms);
  cost.parameters = cost.gradients = bytes;
  return problem_of(profile_of(std::vector<LayerCost>(static_cast<std::size_t>(layers), cost), 8),
                    cluster_of({{8, link_of(latency, 1'000'000'000)}}), 8, {8});
}

/// All layers on all eight devices.
Plan one_stage(const Problem& problem, Bytes bucket) {
  Plan plan{.batch = {problem.global_batch, 8, static_cast<int>(problem.global_batch / 8), 0},
            .schedule = problem.schedules.front(),
            .optimizer = {.gradient_bucket = bucket}};
  Stage& stage = plan.stages.emplace_back();
  stage.layers = {0, static_cast<int>(problem.profile.model.layers.size())};
  for (int device = 0; device < 8; ++device) stage.devices.push_back({device});
  return plan;
}

Duration step(const Problem& problem, Bytes bucket) {
  return predict(one_stage(problem, bucket), problem.profile, problem.cluster).step;
}

}  // namespace

TEST_CASE("sums of gradients beside the last backward: what is seen of alike layers") {
  // A device has one of the eight samples: 1.25 ms forward and 2.5 ms backward in each layer. A
  // ring moves 14/8 of the bytes.
  constexpr int layers = 6;
  const auto seen = [&](Bytes bytes, Bytes bucket) {
    const Problem problem = alike_layers(layers, bytes);
    return step(problem, bucket) - layers * 3750us;
  };
  // 1 MB take 1.75 ms, less than a layer's backward: only the first layer's are seen.
  CHECK(seen(megabyte, 0) == layers * 1750us);
  CHECK(seen(megabyte, 1) == 1750us);
  // 4 MB take 7 ms: each but the last to go leaves 4.5 ms behind.
  CHECK(seen(4 * megabyte, 1) == 7ms + (layers - 1) * 4500us);
  // Buckets of two: those of layers 5 and 4 go when 4's backward has ended.
  CHECK(seen(megabyte, 2 * megabyte) == 3500us);
  // Of four: 7 ms from 10 ms on; then the first two layers', whose bucket is never full, 3.5 ms.
  CHECK(seen(megabyte, 4 * megabyte) == 10ms + 7ms + 3500us - 15ms);
  // A bucket that holds all.
  CHECK(seen(megabyte, 100 * megabyte) == seen(megabyte, 0));
}

TEST_CASE("each bucket pays for its own latency") {
  const Problem problem = alike_layers(4, megabyte, 1ms);
  const DeviceGroup everybody = device_group(problem.cluster, {0, 1, 2, 3, 4, 5, 6, 7});
  const auto sum = [&](Bytes bytes) {
    return collective_time(Collective::all_reduce, everybody, bytes);
  };
  REQUIRE(sum(megabyte) > 2500us);  // every layer's sums outlast its backward
  CHECK(step(problem, 1) == 4 * 3750us + sum(megabyte) + 3 * (sum(megabyte) - 2500us));
  CHECK(step(problem, 0) == 4 * 3750us + sum(4 * megabyte));
}

TEST_CASE("schedules that split backwards hide sums behind weight gradients alone") {
  Problem problem = alike_layers(6, megabyte);
  problem.schedules = {{.name = "zb-h1"}};
  // 1.25 ms of a layer's backward are its weight gradient: 0.5 ms of each sum are left.
  CHECK(step(problem, 1) == 6 * 3750us + 1750us + 5 * 500us);
}

TEST_CASE("without latency sums in smaller buckets are never seen for longer") {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<LayerCost> costs;
    for (int layer = random.between(1, 12); layer > 0; --layer)
      costs.push_back(random_cost(random));
    Problem problem =
        problem_of(profile_of(std::move(costs), 8), cluster_of({{8, link_of(0ms, 100'000'000)}}),
                   8 * std::int64_t{random.between(1, 3)}, {8});
    const auto stage_backward = [&] {
      CostBook book(problem.profile, problem.cluster, {});
      const CostTable& table = book.table(0, 8, 1);
      return table.backward({0, static_cast<int>(problem.profile.model.layers.size())});
    }();
    const Duration behind = step(problem, 0);
    const Duration beside = step(problem, 1);
    // Rounding up of each bucket's sum: a nanosecond a round.
    CHECK(beside <= behind + 14ns * 12);
    CHECK(beside >= behind - stage_backward);
  }
}

TEST_CASE("buckets that nobody gives a size have the framework's own") {
  // In fp32: 40 million gradients, or a million for each of more holders (Megatron-LM).
  CHECK(usual_gradient_bucket(Framework::megatron, 8) == 160'000'000);
  CHECK(usual_gradient_bucket(Framework::megatron, 64) == 256'000'000);
  CHECK(usual_gradient_bucket(Framework::torch, 64) == Bytes{25} << 20);
}
