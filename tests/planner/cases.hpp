// Problems for the planner's tests: small random ones, and equal layers.

#pragma once

#include <random>
#include <set>
#include <utility>
#include <vector>

#include "planner/problem/problem.hpp"
#include "planner/strategies.hpp"

namespace stagecraft::tests {

/// A chain of opaque layers that cost what is listed, for microbatches of `samples`.
inline Profile profile_of(std::vector<LayerCost> costs, std::int64_t samples = 1) {
  Profile profile;
  profile.model.name = "chain";
  for (std::size_t i = 0; i < costs.size(); ++i) {
    Layer layer;
    layer.name = "layer" + std::to_string(i);
    profile.model.layers.push_back(layer);
    if (i > 0) profile.model.edges.push_back({static_cast<int>(i) - 1, static_cast<int>(i)});
  }
  ProfileEntry entry;
  entry.setting.device = "generic";
  entry.setting.microbatch = samples;
  entry.layers = std::move(costs);
  profile.entries.push_back(std::move(entry));
  return profile;
}

inline LayerCost layer_cost(Duration forward, Duration backward) {
  LayerCost cost;
  cost.forward = forward;
  cost.backward_input = backward / 2;
  cost.backward_weight = backward - backward / 2;
  cost.provenance = Provenance::measured;
  return cost;
}

/// Devices that run a profile as it stands; `memory` of 0 is unlimited.
inline Cluster cluster_of(std::vector<Level> levels, Bytes memory = 0) {
  Cluster cluster;
  cluster.name = "test";
  DeviceKind kind;
  kind.name = "generic";
  kind.generic = true;
  kind.memory = memory == 0 ? 1 : memory;
  kind.memory_unlimited = memory == 0;
  cluster.kinds.push_back(kind);
  int count = 1;
  for (const Level& level : levels) count *= level.count;
  cluster.devices.assign(static_cast<std::size_t>(count), 0);
  cluster.levels = std::move(levels);
  return cluster;
}

inline Link link_of(Duration latency, std::int64_t bytes_per_second) {
  Link link;
  link.latency = latency;
  link.point_to_point.bytes_per_second = bytes_per_second;
  link.collective.bytes_per_second = bytes_per_second;
  return link;
}

inline Problem problem_of(Profile profile, Cluster cluster, std::int64_t global_batch,
                          std::vector<std::int64_t> microbatches,
                          const std::vector<std::string>& schedules = {"1f1b"}) {
  Problem problem;
  problem.model_name = "chain";
  problem.cluster_name = "test";
  problem.profile = std::move(profile);
  problem.cluster = std::move(cluster);
  problem.global_batch = global_batch;
  problem.microbatches = std::move(microbatches);
  for (const std::string& name : schedules) {
    ScheduleChoice choice;
    choice.name = name;
    if (name == "interleaved") choice.virtual_stages = 2;
    problem.schedules.push_back(choice);
  }
  return problem;
}

/// Random numbers that are the same everywhere; distributions of the library are not.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  /// From least to most, both included.
  int between(int least, int most) {
    return least + static_cast<int>(engine_() % static_cast<std::uint32_t>(most - least + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }

 private:
  std::mt19937 engine_;
};

inline LayerCost random_cost(Random& random) {
  const auto time = [&](int most) { return std::chrono::microseconds(random.between(0, most)); };
  LayerCost cost = layer_cost(time(40), time(80));
  cost.update = time(10);
  cost.saved = random.between(0, 4000);
  cost.output = random.between(0, 4000);
  if (cost.output % 3 == 0) cost.output_freed = cost.output / 2;
  cost.parameters = random.between(0, 3000);
  cost.gradients = cost.parameters;
  cost.optimizer = 2 * cost.parameters;
  cost.workspace = random.between(0, 1000);
  if (cost.saved % 2 == 0) cost.split_overhead = cost.backward() / 8;
  if (random.chance(60)) {
    cost.selective = {.again = cost.forward * random.between(0, 100) / 100,
                      .saved = cost.saved * random.between(0, 100) / 100};
  }
  return cost;
}

/// What so many layers of a stage do again by themselves, or in runs.
inline std::vector<Recomputed> random_again(Random& random, int layers) {
  std::vector<Recomputed> again;
  for (int i = 0; i < layers; ++i) {
    const bool ends_run = !again.empty() && again.back() == Recomputed::with_next;
    const int fewest = ends_run ? 2 : 0;
    const int most = i + 1 < layers ? 3 : 2;
    again.push_back(static_cast<Recomputed>(random.between(fewest, most)));
  }
  return again;
}

inline Link random_link(Random& random) {
  const int bytes_per_microsecond = 20 * random.between(1, 20);
  return link_of(std::chrono::microseconds(random.between(0, 10)),
                 std::int64_t{bytes_per_microsecond} * 1'000'000);
}

struct CaseSize {
  int layers = 6;
  int devices = 4;
};

/// Small enough for brute force: one or two levels of links, limits on memory, both replica
/// policies, sharded optimizers.
inline Problem random_problem(std::uint32_t seed, CaseSize size) {
  Random random(seed);
  std::vector<LayerCost> costs;
  const int layers = random.between(1, size.layers);
  for (int i = 0; i < layers; ++i) costs.push_back(random_cost(random));
  const int samples = random.chance(50) ? 2 : 1;
  const bool nested = random.chance(40);
  std::vector<Level> levels;
  if (nested && size.devices >= 4) {
    levels = {{2, random_link(random)}, {2, random_link(random)}};
  } else {
    levels = {{random.between(1, size.devices), random_link(random)}};
  }
  const Bytes memory = random.chance(60) ? random.between(2000, 60000) : 0;
  const int microbatches = random.between(1, 5);
  Problem problem = problem_of(
      profile_of(std::move(costs), samples), cluster_of(std::move(levels), memory),
      std::int64_t{samples} * microbatches, {samples}, {random.chance(50) ? "1f1b" : "gpipe"});
  if (random.chance(20)) problem.schedules.push_back(ScheduleChoice{.name = "gpipe"});
  if (random.chance(15)) problem.schedules = {{.name = "interleaved", .virtual_stages = 2}};
  problem.straight = random.chance(30);
  problem.use_fewer_devices = random.chance(70);
  if (random.chance(30)) problem.recompute = {Recompute::none};
  if (random.chance(10)) problem.min_layers_per_stage = 2;
  if (random.chance(25)) {
    // Shares of two tensor-parallel peers, as measured: anything between a half and the whole.
    ProfileEntry halves = problem.profile.entries.front();
    halves.setting.tensor_parallel = 2;
    for (LayerCost& cost : halves.layers) {
      cost.forward = cost.forward * random.between(50, 100) / 100;
      cost.backward_input = cost.backward_input * random.between(50, 100) / 100;
      cost.backward_weight = cost.backward_weight * random.between(50, 100) / 100;
      if (std::exchange(cost.split_overhead, Duration{0}) > Duration{0}) {
        cost.split_overhead = cost.backward() / 8;
      }
      cost.parameters = cost.gradients = (cost.parameters + 1) / 2;
      cost.optimizer = 2 * cost.parameters;
    }
    problem.profile.entries.push_back(std::move(halves));
    problem.tensor_parallel = {1, 2};
  }
  if (layers > 2 && random.chance(20)) {
    problem.profile.model.ties.push_back({0, layers - 1, random.between(1, 500)});
  }
  if (random.chance(35)) problem.optimizer.sharding = Sharding::zero1;
  if (random.chance(25)) problem.optimizer.gradient_bucket = random.between(1, 5000);
  return problem;
}

/// The same with up to three inputs for each layer but the first.
inline Problem random_branching(std::uint32_t seed, CaseSize size) {
  Problem problem = random_problem(seed, size);
  Random random(seed);
  Model& model = problem.profile.model;
  model.edges.clear();
  for (int to = 1; to < static_cast<int>(model.layers.size()); ++to) {
    std::set<int> inputs;
    for (int i = random.between(1, 3); i > 0; --i) inputs.insert(random.between(0, to - 1));
    for (const int from : inputs) model.edges.push_back({from, to});
  }
  return problem;
}

/// The same on devices of two kinds, each with memory and costs of its own.
inline Problem random_mixed(std::uint32_t seed, CaseSize size) {
  Problem problem = random_problem(seed, size);
  Random random(seed);
  std::vector<DeviceKind>& kinds = problem.cluster.kinds;
  kinds.front().generic = false;
  kinds.push_back(kinds.front());
  kinds.back().name = "other";
  if (!kinds.back().memory_unlimited) kinds.back().memory = random.between(2000, 60000);
  for (int& device : problem.cluster.devices) device = random.between(0, 1);
  std::vector<ProfileEntry> others = problem.profile.entries;
  for (ProfileEntry& entry : others) {
    entry.setting.device = "other";
    for (LayerCost& cost : entry.layers) {
      const int percent = random.between(40, 250);
      for (Duration* time : {&cost.forward, &cost.backward_input, &cost.backward_weight}) {
        *time = *time * percent / 100;
      }
    }
    problem.profile.entries.push_back(entry);
  }
  return problem;
}

/// Half the latency and twice the bandwidth everywhere.
inline Problem with_faster_links(Problem problem) {
  for (Level& level : problem.cluster.levels) {
    level.link.latency /= 2;
    level.link.point_to_point.bytes_per_second *= 2;
    level.link.collective.bytes_per_second *= 2;
  }
  return problem;
}

inline Problem with_twice_the_memory(Problem problem) {
  for (DeviceKind& kind : problem.cluster.kinds) kind.memory *= 2;
  return problem;
}

}  // namespace stagecraft::tests
