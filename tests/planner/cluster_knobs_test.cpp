// Every knob of a cluster, turned for the worse, makes a plan that depends on it slower, or not
// fit.

#include <functional>

#include "planner/costs/predict.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// gpt2-124m on sixteen devices: so many stages, the others replicas, optimizer states sharded.
Plan plan_with(int stages, const Profile& profile) {
  const int layers = static_cast<int>(profile.model.layers.size());
  Plan plan{.model = "gpt2-124m",
            .cluster = "test",
            .precision = Precision::bfloat16,
            .batch = {.global = 64, .microbatch = 16, .microbatches = 4, .sequence = 1024},
            .schedule = {.name = "1f1b"},
            .optimizer = {.sharding = Sharding::zero1}};
  for (int stage = 0; stage < stages; ++stage) {
    Stage& next = plan.stages.emplace_back(
        Stage{.layers = {layers * stage / stages, layers * (stage + 1) / stages}});
    for (int replica = 0; replica < 16 / stages; ++replica)
      next.devices.push_back({stage * (16 / stages) + replica});
  }
  return plan;
}

Prediction predicted(const Cluster& cluster, int stages) {
  Profile profile;
  profile.model = builtin_model("gpt2-124m");
  return predict(plan_with(stages, profile), profile, cluster);
}

struct Knob {
  std::string name;
  int stages;  ///< of a plan that depends on it
  std::function<void(Cluster&)> turn;
};

DeviceKind& kind(Cluster& cluster) {
  return cluster.kinds.front();
}

}  // namespace

TEST_CASE("every knob of a cluster matters, in the right direction") {
  // Two pods of two boxes of four; more boxes than members of a pod have rings.
  const Cluster cluster = parse_cluster("2x2x4xa100@25GB/s,25GB/s");
  const std::vector<Knob> knobs{
      {"latency between pods", 1, [](Cluster& c) { c.levels[0].link.latency += 1ms; }},
      {"latency between boxes", 1, [](Cluster& c) { c.levels[1].link.latency += 1ms; }},
      {"latency inside", 1, [](Cluster& c) { c.levels[2].link.latency += 1ms; }},
      {"collectives between boxes", 1,
       [](Cluster& c) { c.levels[1].link.collective = parse_bandwidth("1GB/s"); }},
      {"collectives inside", 1,
       [](Cluster& c) { c.levels[2].link.collective = parse_bandwidth("1GB/s"); }},
      {"messages between pods", 4,
       [](Cluster& c) { c.levels[0].link.point_to_point = parse_bandwidth("1GB/s"); }},
      {"messages inside", 8,
       [](Cluster& c) { c.levels[2].link.point_to_point = parse_bandwidth("1GB/s"); }},
      {"rails", 1, [](Cluster& c) { c.levels[0].rails = c.levels[1].rails = 1; }},
      {"oversubscription", 1, [](Cluster& c) { c.levels[0].oversubscription = 64; }},
      {"a slow link of its own", 8,
       [](Cluster& c) {
         c.overrides.push_back(
             {.from = 0, .to = 2, .link = {.latency = 5ms, .point_to_point = {1'000'000'000}}});
       }},
      {"rate of products", 4, [](Cluster& c) { kind(c).flops_bf16 /= 2; }},
      {"efficiency", 4, [](Cluster& c) { kind(c).efficiency /= 2; }},
      {"memory bandwidth", 4, [](Cluster& c) { kind(c).memory_bandwidth.bytes_per_second /= 4; }},
  };
  for (const Knob& knob : knobs) {
    INFO(knob.name);
    Cluster changed = cluster;
    knob.turn(changed);
    validate(changed);
    CHECK(predicted(changed, knob.stages).step > predicted(cluster, knob.stages).step);
  }
  Cluster small = cluster;
  kind(small).memory = 1 << 20;
  CHECK(predicted(cluster, 4).fits);
  CHECK_FALSE(predicted(small, 4).fits);
}

TEST_CASE("sixteen devices in one NVLink domain are quicker than in four boxes") {
  CHECK(predicted(parse_cluster("16xgb200"), 1).step <
        predicted(parse_cluster("4x4xgb200"), 1).step);
}
