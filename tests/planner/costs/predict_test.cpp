#include "planner/costs/predict.hpp"
#include "profiles/peer_messages.hpp"

#include "planner/costs/device_limits.hpp"
#include "planner/relaxations/chain_bounds.hpp"
#include "profiles/error.hpp"
#include "profiles/kernel_times.hpp"
#include "simulator/checks/check.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/planner/random_layouts.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// One stage per device, equally many layers each.
Plan straight_plan(int stages, int layers_each, int microbatches) {
  Plan plan;
  plan.batch = {
      .global = microbatches, .microbatch = 1, .microbatches = microbatches, .sequence = 0};
  for (int s = 0; s < stages; ++s) {
    plan.stages.push_back({{s * layers_each, (s + 1) * layers_each}, {{s}}, Recompute::none});
  }
  return plan;
}

Prediction predict_equal(const Plan& plan, LayerCost cost, const Cluster& cluster) {
  const auto layers = static_cast<std::size_t>(plan.stages.back().layers.end);
  return predict(plan, profile_of(std::vector<LayerCost>(layers, cost)), cluster);
}

}  // namespace

TEST_CASE("equal stages take (microbatches + stages - 1) rounds", "[predict]") {
  const Plan plan = straight_plan(4, 2, 8);
  const Prediction prediction = predict_equal(plan, layer_cost(5ms, 10ms), cluster_of({{4, {}}}));
  CHECK(prediction.step == (8 + 4 - 1) * 30ms);
  CHECK(prediction.bubble == Approx(3.0 / 11));
  CHECK(prediction.samples_per_second == Approx(8 / 0.33));
  CHECK(prediction.tokens_per_second == 0);
  CHECK(prediction.stages[1].forward == 10ms);
  CHECK(prediction.stages[1].backward == 20ms);
  CHECK(prediction.stages[1].idle == Approx(3.0 / 11));
  CHECK(prediction.provenance == Provenance::measured);
}

TEST_CASE("a backward in two parts takes longer than one, where it is split", "[predict]") {
  Plan plan = straight_plan(4, 2, 8);
  LayerCost cost = layer_cost(5ms, 12ms);
  cost.split_overhead = 2ms;
  const auto prediction = [&] { return predict_equal(plan, cost, cluster_of({{4, {}}})); };
  CHECK(prediction().step == (8 + 4 - 1) * 30ms);
  CHECK(prediction().stages[1].backward == 20ms);
  plan.schedule.name = "zb-h1";
  const Duration split = prediction().step;
  // The last device begins after three forwards, and has all passes of eight microbatches.
  CHECK(split >= 3 * 10ms + 8 * 34ms);
  CHECK(prediction().stages[1].backward == 24ms);
  cost.split_overhead = 0ms;
  CHECK(prediction().step == split);
}

TEST_CASE("a recomputed stage takes its forward once more", "[predict]") {
  Plan plan = straight_plan(4, 2, 8);
  for (Stage& stage : plan.stages) stage.recompute = Recompute::full;
  const Prediction prediction = predict_equal(plan, layer_cost(5ms, 10ms), cluster_of({{4, {}}}));
  CHECK(prediction.step == (8 + 4 - 1) * 40ms);
}

TEST_CASE("layers that recompute by themselves take their own part again", "[predict]") {
  Plan plan = straight_plan(4, 3, 8);
  LayerCost cost = layer_cost(5ms, 10ms);
  cost.selective = {.again = 1ms, .saved = 0};
  const auto step = [&] { return predict_equal(plan, cost, cluster_of({{4, {}}})).step; };
  using enum Recomputed;
  for (Stage& stage : plan.stages) stage.again = {full, none, selective};
  CHECK(step() == (8 + 4 - 1) * (45ms + 5ms + 1ms));
  cost.selective.reset();  // such a layer has nothing to do again
  CHECK(step() == (8 + 4 - 1) * (45ms + 5ms));
  // One slow stage: the others wait for it, once per microbatch.
  plan.stages[0].again.clear();
  CHECK(step() == (8 + 4 - 1) * 50ms - 5ms);
}

TEST_CASE("a schedule that recomputes by itself pays for it", "[predict]") {
  Plan plan = straight_plan(4, 2, 8);
  plan.schedule.name = "1f1b-decoupled-recompute";
  const Prediction prediction = predict_equal(plan, layer_cost(5ms, 10ms), cluster_of({{4, {}}}));
  // Recomputing ahead of the gradient hides some of it in the fill and the drain.
  CHECK(prediction.step > (8 + 4 - 1) * 30ms);
  CHECK(prediction.step < (8 + 4 - 1) * 40ms);
}

TEST_CASE("a plan without a flush keeps old versions of the weights", "[predict]") {
  Plan plan = straight_plan(4, 2, 8);
  plan.schedule.name = "pipedream";
  plan.weights = WeightPolicy::stashing;
  LayerCost cost = layer_cost(5ms, 10ms);
  cost.parameters = 1000;
  const Prediction prediction = predict_equal(plan, cost, cluster_of({{4, {}}}));
  CHECK(prediction.step == (8 + 4 - 1) * 30ms);
  // Two layers in p - r versions.
  for (int r = 0; r < 4; ++r) {
    CHECK(prediction.peaks[static_cast<std::size_t>(r)].bytes == (4 - r) * 2000);
  }
}

TEST_CASE("a plan for inference has forwards only, and no gradients", "[predict]") {
  Plan plan = straight_plan(4, 2, 8);
  plan.schedule.name = "inference";
  LayerCost cost = layer_cost(5ms, 10ms);
  cost.parameters = cost.gradients = cost.optimizer = 1000;
  const Prediction prediction = predict_equal(plan, cost, cluster_of({{4, {}}}));
  CHECK(prediction.step == (8 + 4 - 1) * 10ms);
  for (const MemoryPeak& peak : prediction.peaks) CHECK(peak.bytes == 2000);
}

TEST_CASE("what is needed and what there is look different, or the difference is told") {
  constexpr Bytes gibibyte = Bytes{1} << 30U;
  CHECK(needed_of(48 * gibibyte, 40 * gibibyte) == "48GiB of 40GiB");
  CHECK(needed_of(40 * gibibyte + 524'288, 40 * gibibyte) ==
        "40GiB of 40GiB, 512KiB more than there is");
  CHECK(needed_of(40 * gibibyte, 40 * gibibyte) == "40GiB of 40GiB");
}

TEST_CASE("a plan under bpipe moves what it lends over the cluster's links", "[predict]") {
  Plan plan = straight_plan(4, 1, 12);
  plan.schedule.name = "bpipe";
  LayerCost cost = layer_cost(10ms, 20ms);
  cost.saved = 1'000'000;
  const auto cluster = [](std::int64_t bytes_per_second) {
    return cluster_of({{4, link_of(0ms, bytes_per_second)}});
  };
  // 1 MB at 1 GB/s takes 1 ms, which the rounds of 30 ms hide; at 10 MB/s it takes 100 ms.
  const Prediction fast = predict_equal(plan, cost, cluster(1'000'000'000));
  CHECK(fast.step == (12 + 4 - 1) * 30ms);
  for (const int device : {0, 1}) {
    CHECK(fast.peaks[static_cast<std::size_t>(device)].bytes == 3'000'000);
  }
  CHECK(fast.peaks[3].bytes <= 3'000'000);
  plan.schedule.name = "1f1b";
  CHECK(predict_equal(plan, cost, cluster(1'000'000'000)).peaks[0].bytes == 4'000'000);
  plan.schedule.name = "bpipe";
  CHECK(predict_equal(plan, cost, cluster(10'000'000)).step >= 2 * (12 - 3) * 100ms);
}

TEST_CASE("transfers cost latency and bytes over bandwidth", "[predict]") {
  const Plan plan = straight_plan(2, 1, 1);
  LayerCost cost = layer_cost(10ms, 20ms);
  cost.output = 1'000'000;
  // 1 MB at 1 GB/s is 1 ms; forward and backward cross once each.
  const Prediction prediction =
      predict_equal(plan, cost, cluster_of({{2, link_of(100us, 1'000'000'000)}}));
  CHECK(prediction.step == 60ms + 2 * (1ms + 100us));
  CHECK(prediction.stages[0].send == 1ms + 100us);
  CHECK(prediction.stages[1].send == 0ms);
}

TEST_CASE("data parallelism ends with the sum of gradients and the update", "[predict]") {
  Plan plan = straight_plan(1, 2, 4);
  plan.batch = {16, 4, 4, 0};
  plan.stages[0].devices = {{0}, {1}, {2}, {3}};
  LayerCost cost = layer_cost(4ms, 8ms);
  cost.gradients = cost.parameters = 1'000'000;
  cost.update = 1ms;
  const Profile profile = profile_of({cost, cost}, 4);
  const Prediction prediction =
      predict(plan, profile, cluster_of({{4, link_of(0us, 1'000'000'000)}}));
  // A quarter of the rows each: 2 + 4 ms per microbatch; 2 MB x 2 x 3/4 at 1 GB/s; two updates.
  CHECK(prediction.step == 4 * 6ms + 3ms + 2ms);
  CHECK(prediction.notes.size() == 1);
  CHECK_THAT(prediction.notes[0], ContainsSubstring("scaled from the measured microbatch of 4"));
  // So is what a backward takes longer in two parts: of 12 ms in parts 9 in one, 2.25 of a quarter.
  cost.backward_input = cost.backward_weight = 6ms;
  cost.split_overhead = 3ms;
  const Profile in_parts = profile_of({cost, cost}, 4);
  CHECK(predict(plan, in_parts, cluster_of({{4, link_of(0us, 1'000'000'000)}})).step ==
        4 * 2 * (1ms + 2250us) + 3ms + 2ms);
}

TEST_CASE("sharded data parallelism scatters, updates a share and collects", "[predict]") {
  Plan plan = straight_plan(1, 2, 4);
  plan.batch = {16, 4, 4, 0};
  plan.stages[0].devices = {{0}, {1}, {2}, {3}};
  LayerCost cost = layer_cost(4ms, 8ms);
  cost.gradients = 2'000'000;
  cost.parameters = 1'000'000;
  cost.optimizer = 6'000'001;
  cost.update = 2ms;
  const Profile profile = profile_of({cost, cost}, 4);
  const Cluster cluster = cluster_of({{4, link_of(0us, 1'000'000'000)}});
  const Prediction whole = predict(plan, profile, cluster);
  plan.optimizer.sharding = Sharding::zero1;
  const Prediction sharded = predict(plan, profile, cluster);
  // 4 MB of gradients and 2 MB of parameters, each x 3/4 at 1 GB/s, around a quarter of 4 ms.
  CHECK(whole.step == 4 * 6ms + 6ms + 4ms);
  CHECK(sharded.step == 4 * 6ms + 3ms + 1ms + 1500us);
  // A quarter of the optimizer's state, rounded up.
  CHECK(whole.peaks[0].bytes - sharded.peaks[0].bytes == 12'000'002 - 3'000'001);
}

TEST_CASE("an entry for exactly a replica's rows is used as it is", "[predict]") {
  Plan plan = straight_plan(1, 1, 1);
  plan.batch = {2, 2, 1, 0};
  plan.stages[0].devices = {{0}, {1}};
  Profile profile = profile_of({layer_cost(10ms, 20ms)}, 2);
  profile.entries.push_back(profile.entries.front());
  profile.entries.back().setting.microbatch = 1;
  profile.entries.back().layers = {layer_cost(7ms, 11ms)};
  const Prediction prediction = predict(plan, profile, cluster_of({{2, {}}}));
  CHECK(prediction.step == 18ms);
  CHECK(prediction.notes.empty());
}

TEST_CASE("memory counts parameters, saved activations in flight and inner inputs", "[predict]") {
  const Plan plan = straight_plan(2, 2, 4);
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.parameters = 1000;
  cost.gradients = 1000;
  cost.optimizer = 2000;
  cost.saved = 100;
  cost.output = 10;
  cost.workspace = 7;
  const Prediction prediction = predict_equal(plan, cost, cluster_of({{2, {}}}));
  // Stage 0 holds two microbatches of 2 x 100 saved and 1 x 10 inner input. When B0.0 begins, that
  // is 2 x 210, the workspace, and the gradient of its output.
  CHECK(prediction.peaks[0].bytes == 8000 + 2 * 210 + 7 + 10);
  // Stage 1 holds one of them with its input of 10, and its gradient, in B1; the next input may
  // have come already.
  CHECK(prediction.peaks[1].bytes >= 8000 + 210 + 10 + 7 + 10);
  CHECK(prediction.peaks[1].bytes <= 8000 + 210 + 10 + 7 + 10 + 3 * 10);
}

TEST_CASE("a layer that recomputes keeps its input, and has all it saves while it goes back",
          "[predict]") {
  Plan plan = straight_plan(2, 2, 4);
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.saved = 100;
  cost.output = 10;
  cost.workspace = 7;
  cost.selective = {.again = 1ms, .saved = 60};
  const auto peak = [&] { return predict_equal(plan, cost, cluster_of({{2, {}}})).peaks[0].bytes; };
  using enum Recomputed;
  // Two microbatches in flight, each with the inner input; the gradient of the output, and the next
  // one, which comes early to a stage that takes longer; what is rebuilt of the one layer at work.
  plan.stages[0].again = {full, full};
  CHECK(peak() == 2 * 10 + (7 + 100) + 2 * 10);
  plan.stages[0].again = {none, full};
  CHECK(peak() == 2 * (100 + 10) + (7 + 100) + 2 * 10);
  plan.stages[0].again = {selective, none};
  CHECK(peak() == 2 * (160 + 10) + (7 + 40) + 2 * 10);
  // The whole stage has both layers' at once.
  plan.stages[0].again.clear();
  plan.stages[0].recompute = Recompute::full;
  CHECK(peak() == 2 * 100 + 10 + 7 + 2 * 10);
}

namespace {

/// One layer that does all that those do, one after the other.
LayerCost merged(const std::vector<LayerCost>& layers) {
  LayerCost sum = layers.front();
  for (std::size_t i = 1; i < layers.size(); ++i) {
    const LayerCost& next = layers[i];
    sum.forward += next.forward;
    sum.backward_input += next.backward_input;
    sum.backward_weight += next.backward_weight;
    sum.split_overhead += next.split_overhead;
    sum.update += next.update;
    sum.saved += sum.output - sum.output_freed + next.saved;
    sum.saved_for_weight += sum.output - sum.output_freed + next.saved_for_weight;
    sum.output = next.output;
    sum.output_freed = next.output_freed;
    sum.parameters += next.parameters;
    sum.gradients += next.gradients;
    sum.optimizer += next.optimizer;
  }
  sum.selective.reset();
  return sum;
}

}  // namespace

TEST_CASE("layers that recompute together are as one layer that does", "[predict]") {
  const std::string schedule = GENERATE(as<std::string>{}, "1f1b", "zb-h1");
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    INFO(schedule << ", seed " << seed);
    Random random(seed);
    Plan runs = straight_plan(2, 1, 4), layers = runs;
    runs.schedule.name = layers.schedule.name = schedule;
    runs.stages.clear(), layers.stages.clear();
    std::vector<LayerCost> apart, together;
    for (int s = 0; s < 2; ++s) {
      Stage& stage = runs.stages.emplace_back();
      Stage& as_layers = layers.stages.emplace_back();
      stage.devices = as_layers.devices = {{s}};
      stage.layers.first = static_cast<int>(apart.size());
      as_layers.layers.first = static_cast<int>(together.size());
      for (int run = random.between(1, 3); run > 0; --run) {
        std::vector<LayerCost> members;
        for (int i = random.between(1, 4); i > 0; --i) {
          members.push_back(random_cost(random));
          // What is needed besides, while all of the run is there, is needed at its end only.
          members.back().workspace = 0;
          members.back().saved_for_weight = members.back().saved;
        }
        const bool does = random.chance(70);
        stage.again.insert(stage.again.end(), members.size(),
                           does ? Recomputed::with_next : Recomputed::none);
        if (does) stage.again.back() = Recomputed::full;
        as_layers.again.push_back(does ? Recomputed::full : Recomputed::none);
        apart.insert(apart.end(), members.begin(), members.end());
        together.push_back(merged(members));
      }
      stage.layers.end = static_cast<int>(apart.size());
      as_layers.layers.end = static_cast<int>(together.size());
    }
    const Cluster cluster = cluster_of({{2, link_of(3us, 2'000'000'000)}});
    const Prediction ours = predict(runs, profile_of(apart), cluster);
    const Prediction expected = predict(layers, profile_of(together), cluster);
    REQUIRE(ours.step == expected.step);
    for (std::size_t d = 0; d < 2; ++d) REQUIRE(ours.peaks[d].bytes == expected.peaks[d].bytes);
  }
}

TEST_CASE("an output that others read, too, is kept beside a run", "[predict]") {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.saved = 100;
  cost.output = 10;
  Profile profile = profile_of(std::vector<LayerCost>(4, cost));
  Plan plan = straight_plan(1, 4, 1);
  plan.stages[0].again = {Recomputed::with_next, Recomputed::with_next, Recomputed::full,
                          Recomputed::none};
  const auto peak = [&] { return predict(plan, profile, cluster_of({{1, {}}})).peaks[0].bytes; };
  // Going back through the run: all it has, and nothing else.
  const Bytes run = 3 * 100 + 2 * 10;
  const Bytes before = peak();
  profile.model.edges.push_back({0, 3});
  CHECK(before >= run);
  CHECK(peak() == before);  // it is there while the run goes back, kept or not
  plan.stages[0].layers.end = 4;
  plan.batch = {.global = 2, .microbatch = 1, .microbatches = 2, .sequence = 0};
  plan.schedule.name = "gpipe";
  const Bytes both = peak();
  profile.model.edges.pop_back();
  CHECK(both == peak() + 10);  // of the other microbatch
}

TEST_CASE("sgd keeps no state beside the weights", "[predict]") {
  Plan plan = straight_plan(1, 1, 1);
  plan.optimizer.kind = OptimizerKind::sgd;
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.parameters = cost.gradients = 1000;
  cost.optimizer = 2000;
  CHECK(predict_equal(plan, cost, cluster_of({{1, {}}})).peaks[0].bytes == 2000);
}

TEST_CASE("a plan above the limit is predicted, and does not fit", "[predict]") {
  const Plan plan = straight_plan(1, 1, 1);
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.parameters = 1000;
  CHECK(predict_equal(plan, cost, cluster_of({{1, {}}}, 1000)).fits);
  const Prediction prediction = predict_equal(plan, cost, cluster_of({{1, {}}}, 999));
  CHECK_FALSE(prediction.fits);
  CHECK(prediction.step == 3ms);
}

TEST_CASE("the fast clock agrees with the simulator, and all programs are safe", "[predict]") {
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    Random random(seed);
    const Problem problem = random_problem(seed + 7000, {8, 6});
    const Space space(problem);
    for (const Setting& setting : space.settings()) {
      Layout layout;
      layout.replicas = random_replicas(random, space, setting);
      FastClock clock(space, setting);
      if (layout.replicas.empty() || clock.order_for(layout.replicas) == nullptr) continue;
      const int stages = layout.pipeline_devices() * setting.schedule.virtual_stages;
      layout.cuts = random_cuts(random, space.layers(), stages);
      for (int s = 0; s < stages; ++s) {
        layout.recompute.push_back(random.chance(50) ? Recompute::none : Recompute::full);
        const bool apart = layout.recompute.back() == Recompute::none && random.chance(70);
        const int layers =
            layout.cuts[static_cast<std::size_t>(s) + 1] - layout.cuts[static_cast<std::size_t>(s)];
        layout.again.push_back(random_again(random, apart ? layers : 0));
      }
      const Candidate candidate = space.evaluate("", space.plan(setting, layout));
      INFO("seed " << seed << "\n" << write_plan(candidate.plan) << candidate.rejected);
      REQUIRE(candidate.prediction);
      const Time step = candidate.prediction->step.count();
      REQUIRE(clock.step(layout) <= step);
      // Several stages of a device may have to take turns at summing their gradients.
      if (setting.schedule.virtual_stages == 1) REQUIRE(clock.step(layout) == step);
      for (int d = 0; d < layout.pipeline_devices(); ++d) {
        // What is ruled out really does not fit.
        REQUIRE((clock.may_fit(layout, d) || !candidate.prediction->fits));
      }
      require_safe(compile_valid(candidate.plan, space.book(candidate.plan)).program);
    }
  }
}

TEST_CASE("an invalid plan is not compiled", "[predict]") {
  Plan plan = straight_plan(2, 1, 1);
  plan.stages[1].devices = {{0}};
  CHECK_THROWS_AS(predict_equal(plan, layer_cost(1ms, 2ms), cluster_of({{2, {}}})), Error);
}

TEST_CASE("tensor-parallel peers sum what each layer hands on", "[predict]") {
  const Model model = builtin_model("gpt2-124m");
  const DeviceKind device = builtin_device_kind("a100");
  const CostSetting setting{.device = "a100", .sequence = 1024, .tensor_parallel = 4};
  const std::vector<LayerCost> alone = estimate_costs(model, device, setting);
  const Link link = link_of(3us, 100'000'000'000);
  const Cluster cluster = cluster_of({{4, link}});
  const std::vector<LayerCost> costs = with_peer_messages(alone, model, cluster, device, setting);
  const Bytes bytes = 1024 * 768 * 4;  // tokens x hidden x fp32
  const KernelConstants constants = usual_constants("a100");
  const DeviceGroup peers = device_group(cluster, {0, 1, 2, 3});
  const auto sum_of = [&](Bytes summed) {
    return from_seconds(collective_seconds(OperationKind::all_reduce, static_cast<double>(summed),
                                           peers, constants));
  };
  const Duration sum = sum_of(bytes);
  // Around the ring twice, at 100 bytes a nanosecond as far as training reaches them; links of 3 us
  // a hop are so much quicker than those that `peer_seconds` is of.
  const double bytes_sent = 2.0 * 3 / 4 * static_cast<double>(bytes);
  const double expected = constants.message_seconds + 3 * constants.peer_seconds * 3 / 5 +
                          bytes_sent / (1e11 * constants.inside_rate);
  CHECK(std::chrono::duration<double>(sum).count() == Approx(expected).epsilon(1e-4));
  CHECK(costs.front().forward == alone.front().forward + sum);
  CHECK(costs.front().backward() == alone.front().backward());
  for (std::size_t block = 1; block <= 12; ++block) {
    CHECK(costs[block].forward == alone[block].forward + 2 * sum);
    CHECK(costs[block].backward() == alone[block].backward() + 2 * sum);
  }
  // Of the loss: the largest logit, the sum of exponentials and the own logit of each token.
  CHECK(costs.back().forward == alone.back().forward + 3 * sum_of(1024 * 4));
  CHECK(costs.back().backward() == alone.back().backward() + sum);
  const CostSetting whole{.device = "a100", .sequence = 1024};
  CHECK(with_peer_messages(alone, model, cluster, device, whole) == alone);
}

TEST_CASE("measured shares of tensor-parallel peers are taken as they stand", "[predict]") {
  Profile profile = profile_of(std::vector<LayerCost>(2, layer_cost(10ms, 20ms)));
  ProfileEntry halves = profile.entries.front();
  halves.setting.tensor_parallel = 2;
  for (LayerCost& cost : profile.entries.front().layers) cost.parameters = 100;
  for (LayerCost& cost : halves.layers) cost = layer_cost(6ms, 12ms);
  for (LayerCost& cost : halves.layers) cost.parameters = 50;
  profile.entries.push_back(halves);
  Plan plan;
  plan.batch = {.global = 4, .microbatch = 1, .microbatches = 4};
  plan.stages = {{{0, 1}, {{0, 1}}}, {{1, 2}, {{2}}}};
  const Cluster cluster = cluster_of({{4, {}}});
  const Prediction prediction = predict(plan, profile, cluster);
  CHECK(prediction.stages[0].forward == 6ms);
  CHECK(prediction.stages[1].forward == 10ms);
  CHECK(prediction.peaks.size() == 2);
  CHECK(device_peaks(plan, prediction) == std::vector<Bytes>{50, 50, 100});
  plan.stages[1].devices = {{2, 3}};
  // Equal stages of 6 ms and 12 ms: (m + p - 1) (f + b).
  CHECK(predict(plan, profile, cluster).step == 5 * 18ms);
}
