#include "planner/calibration/timeline_costs.hpp"

#include <cmath>

#include "planner/costs/cost_book.hpp"
#include "simulator/schedules/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Layers that differ, with boundaries of three sizes.
Profile guessed(std::int64_t samples) {
  std::vector<LayerCost> costs;
  for (int i = 0; i < 8; ++i) {
    LayerCost cost = layer_cost((1 + i % 3) * 1ms, (3 + i % 2) * 1ms);
    if (i % 2 == 0) cost.split_overhead = 600us;
    cost.update = 300us;
    cost.output = (1 + i % 3) << 20;
    cost.parameters = cost.gradients = 8 << 20;
    costs.push_back(cost);
  }
  return profile_of(std::move(costs), samples);
}

/// As it is in truth: stages are slower than thought, each pass by a factor of its own.
Profile true_of(Profile profile, const Plan& plan) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const auto slower = [&](Duration& time, int factor) {
      time = time * (factor + static_cast<int>(s));
    };
    for (int layer = plan.stages[s].layers.first; layer < plan.stages[s].layers.end; ++layer) {
      LayerCost& cost = profile.entries[0].layers[static_cast<std::size_t>(layer)];
      slower(cost.forward, 2);
      slower(cost.backward_input, 3);
      slower(cost.backward_weight, 3);
      slower(cost.split_overhead, 3);
      slower(cost.update, 4);
    }
  }
  return profile;
}

Plan plan_of(std::string schedule, int devices, int virtual_stages, int replicas,
             Sharding sharding = Sharding::none) {
  Plan plan;
  plan.batch = {.global = 16, .microbatch = 2, .microbatches = 8, .sequence = 0};
  plan.schedule = {.name = std::move(schedule), .virtual_stages = virtual_stages};
  plan.optimizer.sharding = sharding;
  const int stages = devices * virtual_stages;
  for (int s = 0; s < stages; ++s) {
    Stage stage{.layers = {s * 8 / stages, (s + 1) * 8 / stages}, .devices = {}};
    const int place =
        device_of_stage(find_schedule(plan.schedule.name).placement, s, devices) * replicas;
    for (int r = 0; r < replicas; ++r) stage.devices.push_back({place + r});
    plan.stages.push_back(stage);
  }
  return plan;
}

struct Setup {
  Plan plan;
  Profile guess, truth;
  Cluster guessed_cluster, true_cluster;
};

Setup setup_of(Plan plan, int devices, std::int64_t samples) {
  const Profile guess = guessed(samples);
  const Profile truth = true_of(guess, plan);
  return {.plan = std::move(plan),
          .guess = guess,
          .truth = truth,
          .guessed_cluster = cluster_of({{devices, link_of(10us, 10'000'000'000)}}),
          .true_cluster = cluster_of({{devices, link_of(200us, 2'000'000'000)}})};
}

/// What a run would measure: the truth, simulated.
TimelineCosts calibrated(const Setup& setup) {
  const Compiled real = compile(setup.plan, setup.truth, setup.true_cluster);
  const Timeline timeline = simulate(real.program, real.costs, {.iterations = 3});
  const Compiled compiled = compile(setup.plan, setup.guess, setup.guessed_cluster);
  return costs_from_timeline(setup.plan, compiled, setup.guess, setup.guessed_cluster,
                             measured_steps(compiled.program, timeline));
}

double error_of(const Plan& plan, const Setup& setup, const Profile& profile,
                const Cluster& cluster) {
  const Duration real = predict(plan, setup.truth, setup.true_cluster).step;
  return std::abs(seconds(predict(plan, profile, cluster).step) / seconds(real) - 1);
}

}  // namespace

TEST_CASE("a profile from a timeline predicts its plan as it was measured", "[timeline_costs]") {
  for (const auto& [schedule, virtual_stages] :
       {std::pair("gpipe", 1), {"1f1b", 1}, {"interleaved", 2}, {"zb-h1", 1}, {"zb-v", 2}}) {
    for (const int replicas : {1, 2}) {
      INFO(schedule << " with " << replicas << " replicas");
      const Setup setup = setup_of(plan_of(schedule, 2, virtual_stages, replicas), 2 * replicas, 2);
      const TimelineCosts costs = calibrated(setup);
      CHECK(error_of(setup.plan, setup, setup.guess, setup.guessed_cluster) > 0.4);
      CHECK(error_of(setup.plan, setup, costs.profile, costs.cluster) < 1e-4);
    }
  }
}

TEST_CASE("sharded updates and recomputations count as what they are part of", "[timeline_costs]") {
  Plan plan = plan_of("1f1b", 2, 1, 2, Sharding::zero1);
  for (Stage& stage : plan.stages) stage.recompute = Recompute::full;
  const Setup setup = setup_of(plan, 4, 2);
  const TimelineCosts costs = calibrated(setup);
  CHECK(error_of(plan, setup, costs.profile, costs.cluster) < 1e-4);
  for (std::size_t layer = 0; layer < 8; ++layer) {
    const LayerCost& real = setup.truth.entries[0].layers[layer];
    // Of one of the two samples of a microbatch.
    const LayerCost& found = costs.profile.entries[1].layers[layer];
    CHECK(found.forward * 2 == real.forward);
    CHECK(std::chrono::abs(found.update - real.update) <= 2ns);
  }
}

TEST_CASE("what one schedule measured predicts the others", "[timeline_costs]") {
  const Setup setup = setup_of(plan_of("1f1b", 2, 1, 1), 2, 2);
  const TimelineCosts costs = calibrated(setup);
  for (const std::string schedule : {"gpipe", "zb-h1", "zb-h2"}) {
    INFO(schedule);
    Plan other = setup.plan;
    other.schedule.name = schedule;
    CHECK(error_of(other, setup, setup.guess, setup.guessed_cluster) > 0.4);
    CHECK(error_of(other, setup, costs.profile, costs.cluster) < 1e-3);
  }
}

TEST_CASE("other microbatch sizes follow the measured one, as fitted", "[timeline_costs]") {
  Setup setup = setup_of(plan_of("1f1b", 2, 1, 1), 2, 2);
  ProfileEntry larger = setup.guess.entries[0];
  larger.setting.microbatch = 4;
  for (LayerCost& cost : larger.layers) cost.forward *= 2;
  setup.guess.entries.push_back(larger);
  const TimelineCosts costs = calibrated(setup);
  const auto& measured = costs.profile.entries[0].layers;
  const auto& followed = costs.profile.entries[1].layers;
  for (std::size_t layer = 0; layer < 8; ++layer) {
    CHECK(followed[layer].forward == 2 * measured[layer].forward);
    CHECK(followed[layer].backward() == measured[layer].backward());
    CHECK(measured[layer].provenance == Provenance::measured);
    CHECK(followed[layer].provenance == Provenance::fitted);
  }
}

TEST_CASE("peers measured by themselves follow a timeline with their messages",
          "[timeline_costs]") {
  const Model model = make_transformer("small",
                                       {.hidden = 16,
                                        .heads = 2,
                                        .key_value_heads = 2,
                                        .head_width = 8,
                                        .feed_forward = 64,
                                        .vocabulary = 40,
                                        .positions = 8},
                                       2, 8);
  const Cluster cluster = cluster_of({{2, link_of(10us, 1'000'000'000)}});
  Profile alone{.model = model};
  for (const std::int64_t samples : {1, 2}) {
    alone.entries.push_back({.setting = {.device = "generic",
                                         .microbatch = samples,
                                         .sequence = 8,
                                         .tensor_parallel = 2},
                             .layers = std::vector<LayerCost>(4, layer_cost(1ms, 2ms)),
                             .has_peer_messages = false});
  }
  Plan plan;
  plan.batch = {.global = 4, .microbatch = 1, .microbatches = 4, .sequence = 8};
  plan.schedule = {.name = "1f1b"};
  plan.stages = {{.layers = {0, 4}, .devices = {{0, 1}}}};
  // Messages and layers take twice as long as they were taken for.
  const Compiled compiled = compile(plan, alone, cluster);
  Costs twice = compiled.costs;
  for (ChunkCosts& chunk : twice.chunks) {
    for (Duration ChunkCosts::*time :
         {&ChunkCosts::forward, &ChunkCosts::backward, &ChunkCosts::backward_input,
          &ChunkCosts::backward_weight, &ChunkCosts::update})
      chunk.*time *= 2;
  }
  const Timeline timeline = simulate(compiled.program, twice);
  const TimelineCosts costs = costs_from_timeline(plan, compiled, alone, cluster,
                                                  measured_steps(compiled.program, timeline));
  CostBook before(alone, cluster, {.sequence = 8});
  CHECK(before.table(0, 2, 2, 2).layer(1).forward > 1ms);
  for (const ProfileEntry& entry : costs.profile.entries) {
    CHECK(entry.has_peer_messages);
    const std::int64_t samples = entry.setting.microbatch;
    for (int layer = 0; layer < 4; ++layer) {
      const Duration taken = before.table(0, samples, samples, 2).layer(layer).forward;
      const Duration found = entry.layers[static_cast<std::size_t>(layer)].forward;
      // A stage's time is shared out in whole nanoseconds.
      CHECK(std::chrono::abs(found - 2 * taken) <= Duration(2));
    }
  }
}

TEST_CASE("a replica's share gets an entry of its own", "[timeline_costs]") {
  const Setup setup = setup_of(plan_of("1f1b", 2, 1, 2), 4, 2);
  const TimelineCosts costs = calibrated(setup);
  REQUIRE(costs.profile.entries.size() == 2);
  CHECK(costs.profile.entries[1].setting.microbatch == 1);
  CHECK(costs.profile.entries[1].layers[0].output == (1 << 19));
}

TEST_CASE("instructions and links say what they were taken for, and what they were",
          "[timeline_costs]") {
  const Setup setup = setup_of(plan_of("1f1b", 2, 1, 1), 2, 2);
  const TimelineCosts costs = calibrated(setup);
  REQUIRE(costs.instructions.size() == 6);  // F, B, U of two stages
  const InstructionTimes& forward = costs.instructions[0];
  // Layers of 1, 2, 3 and 1 ms.
  CHECK(forward == InstructionTimes{.stage = 0,
                                    .op = Op::forward,
                                    .count = 8,
                                    .before = 7ms,
                                    .measured = 14ms,
                                    .overhead = 0ms});
  REQUIRE(costs.links.size() == 1);
  CHECK(costs.links[0].what == "level 0 of the cluster");
  CHECK(costs.links[0].count == 48);
  // One boundary of 1 MiB: the latency stays, the bandwidth makes up for it.
  CHECK(costs.links[0].after.latency == 10us);
  CHECK(std::chrono::abs(message_time(costs.cluster.levels[0].link, 1 << 20) -
                         message_time(setup.true_cluster.levels[0].link, 1 << 20)) <= 2ns);
}

TEST_CASE("a slow step changes nothing, a slow instruction of a typical step counts",
          "[timeline_costs]") {
  const Setup setup = setup_of(plan_of("gpipe", 2, 1, 1), 2, 2);
  const Compiled compiled = compile(setup.plan, setup.guess, setup.guessed_cluster);
  const Timeline timeline = simulate(compiled.program, compiled.costs, {.iterations = 4});
  std::vector<MeasuredStep> steps = measured_steps(compiled.program, timeline);
  const auto forward = [&] {
    return costs_from_timeline(setup.plan, compiled, setup.guess, setup.guessed_cluster, steps)
        .instructions[0]
        .measured;
  };
  for (MeasuredWork& work : steps[1].work) work.end += 1s;
  steps[1].time += 1s;
  CHECK(forward() == 7ms);
  // One of eight forwards, in both of the steps that count.
  const auto first = std::ranges::find_if(compiled.program.work, [](const Work& work) {
    return work.instruction == Instruction{Op::forward, 0, 0};
  });
  for (MeasuredStep& step : steps)
    step.work[static_cast<std::size_t>(first - compiled.program.work.begin())].end += 16ms;
  CHECK(forward() == 9ms);
}

TEST_CASE("messages of several sizes tell latency from bandwidth", "[timeline_costs]") {
  std::vector<Transfer> transfers;
  for (const Bytes bytes : {1'000, 100'000, 10'000'000}) {
    for (int i = 0; i < 9; ++i)
      transfers.push_back({1, bytes, 50us + transfer_time(bytes, {4'000'000'000})});
  }
  transfers.push_back({1, 1'000, 1s});
  const auto fitted = fit_transfers(transfers, {1us, Bandwidth{1'000'000'000}}, false);
  CHECK(std::chrono::abs(fitted.latency - 50us) < 100ns);
  CHECK(static_cast<double>(fitted.bandwidth.bytes_per_second) == Approx(4e9).epsilon(1e-3));
}

TEST_CASE("a message that takes less than its latency keeps half of it", "[timeline_costs]") {
  const auto fitted = fit_transfers({{1, 1'000'000, 100us}}, {1ms, Bandwidth{1}}, false);
  CHECK(fitted.latency == 50us);
  CHECK(transfer_time(1'000'000, fitted.bandwidth) == 50us);
  const auto empty = fit_transfers({{1, 0, 100us}}, {1ms, Bandwidth{1}}, false);
  CHECK(empty.latency == 100us);
}

TEST_CASE("a typical time is the mean of the middle half", "[timeline_costs]") {
  CHECK(typical_time({5ms}) == 5ms);
  CHECK(typical_time({1s, 2ms, 1ms}) == 2ms);
  CHECK(typical_time({9s, 1ms, 2ms, 4ms}) == 3ms);
  CHECK(typical_time({1ms, 2ms, 3ms, 4ms, 5ms, 6ms, 7ms, 800s}) == 4500us);
}

TEST_CASE("parts are in proportion and add up", "[timeline_costs]") {
  CHECK(split(10ns, {1ms, 2ms, 2ms}) == std::vector<Duration>{2ns, 4ns, 4ns});
  CHECK(split(10ns, {1ms, 1ms, 1ms}) == std::vector<Duration>{3ns, 4ns, 3ns});
  CHECK(split(10ns, {0ms, 0ms}) == std::vector<Duration>{5ns, 5ns});
}
