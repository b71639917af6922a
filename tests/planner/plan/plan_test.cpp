#include "planner/plan/plan.hpp"

#include <functional>

#include "planner/costs/predict.hpp"
#include "planner/plan/sharding_words.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// 28 layers on three of four devices, the middle stage doubled.
Plan good_plan() {
  Plan plan;
  plan.model = "chain";
  plan.cluster = "test";
  plan.batch = {.global = 8, .microbatch = 2, .microbatches = 4, .sequence = 0};
  plan.stages = {{{0, 7}, {{0}}, Recompute::none},
                 {{7, 16}, {{1}, {2}}, Recompute::full},
                 {{16, 28}, {{3}}, Recompute::none}};
  return plan;
}

Model chain_model(int layers) {
  return profile_of(std::vector<LayerCost>(static_cast<std::size_t>(layers))).model;
}

std::string complaint(const Plan& plan, int layers = 28, int devices = 4) {
  try {
    validate(plan, chain_model(layers), cluster_of({{devices, {}}}));
    return "";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.message();
  }
}

std::string complaint_after(const std::function<void(Plan&)>& change) {
  Plan plan = good_plan();
  change(plan);
  return complaint(plan);
}

}  // namespace

TEST_CASE("a plan that keeps its promises is valid", "[plan]") {
  CHECK(complaint(good_plan()).empty());
}

TEST_CASE("a gap between stages names the layers that would never be trained", "[plan]") {
  CHECK(complaint_after([](Plan& plan) { plan.stages[1].layers.first = 8; }) ==
        "plan: stage 1 starts at layer 8 but stage 0 ends at layer 7: layer 7 would never be "
        "trained; 27 of 28 layers are placed");
  CHECK(complaint_after([](Plan& plan) { plan.stages[0].layers.first = 2; }) ==
        "plan: stage 0 starts at layer 2: layers 0..1 would never be trained; 26 of 28 layers are "
        "placed");
  CHECK(complaint_after([](Plan& plan) { plan.stages[2].layers.end = 27; }) ==
        "plan: stage 2 ends at layer 27 but the model \"chain\" has 28 layers: layer 27 would "
        "never be trained; 27 of 28 layers are placed");
}

TEST_CASE("an overlap names the layers that would be trained twice", "[plan]") {
  CHECK(complaint_after([](Plan& plan) { plan.stages[1].layers.first = 5; }) ==
        "plan: stage 1 starts at layer 5 but stage 0 ends at layer 7: layers 5..6 would be trained "
        "twice");
}

TEST_CASE("a plan for another model is refused", "[plan]") {
  CHECK_THAT(
      complaint(good_plan(), 24),
      ContainsSubstring("the model \"chain\" has 24 layers: this is a plan for another model"));
}

TEST_CASE("stages between the first and the last one may be empty, where they stand", "[plan]") {
  const auto with_middle = [](LayerRange middle, int next = 7) {
    return complaint_after([&](Plan& plan) {
      plan.stages[1].layers = middle;
      plan.stages[2].layers.first = next;
    });
  };
  CHECK(with_middle({7, 7}).empty());
  CHECK(with_middle({8, 8}, 8) ==
        "plan: stage 1 starts at layer 8 but stage 0 ends at layer 7: layer 7 would never be "
        "trained; 27 of 28 layers are placed");
  CHECK(with_middle({5, 5}) ==
        "plan: stage 1 starts at layer 5, where it is empty, but stage 0 ends at layer 7");
  CHECK(with_middle({9, 7}) == "plan: stage 1 ends before it begins: [9, 7)");
  CHECK(complaint_after([](Plan& plan) {
          plan.stages[1].layers = {7, 28};
          plan.stages[2].layers = {28, 28};
        }) ==
        "plan: stage 2 has no layers: [28, 28) is empty, but the last stage must have the last "
        "layer");
  CHECK_THAT(complaint_after([](Plan& plan) {
               plan.stages[0].layers = {0, 0};
               plan.stages[1].layers = {0, 16};
             }),
             ContainsSubstring("is empty, but the first stage must have the first layer"));
  CHECK_THAT(complaint_after([](Plan& plan) { plan.stages.clear(); }),
             ContainsSubstring("there are no stages"));
}

TEST_CASE("devices must exist, once", "[plan]") {
  CHECK_THAT(complaint_after([](Plan& plan) { plan.stages[2].devices = {{4}}; }),
             ContainsSubstring("stage 2 uses device 4, but the cluster has 4 devices: 0..3"));
  CHECK_THAT(complaint_after([](Plan& plan) { plan.stages[2].devices = {{2}}; }),
             ContainsSubstring("device 2 is used by stage 1 and by stage 2"));
  CHECK_THAT(complaint_after([](Plan& plan) {
               plan.stages[1].devices = {{1}, {1}};
             }),
             ContainsSubstring("device 1 is used twice by stage 1"));
  CHECK_THAT(complaint_after([](Plan& plan) { plan.stages[2].devices.clear(); }),
             ContainsSubstring("stage 2 has no devices"));
  CHECK_THAT(complaint_after([](Plan& plan) { plan.stages[2].devices = {{}}; }),
             ContainsSubstring("stage 2 has a replica without a device"));
  CHECK_THAT(complaint(good_plan(), 28, 3),
             ContainsSubstring("the plan uses 4 devices, but the cluster has only 3"));
}

TEST_CASE("tensor-parallel peers are neighbours", "[plan]") {
  Plan plan = good_plan();
  plan.stages[1].devices = {{1, 2}};
  CHECK(complaint(plan).empty());
  CHECK(used_devices(plan) == std::vector{0, 1, 2, 3});
  CHECK(lead_devices(plan) == std::vector{0, 1, 3});
  plan.stages[1].devices = {{1, 3}};
  CHECK_THAT(complaint(plan), ContainsSubstring("device 3 is used by stage 1 and by stage 2"));
  plan = good_plan();
  plan.stages[1].devices = {{1, 2}};
  CHECK_THROWS_WITH(
      validate(plan, chain_model(28), cluster_of({{2, {}}, {2, {}}})),
      ContainsSubstring("devices 1 and 2 of stage 1 are tensor-parallel peers, but not joined by "
                        "the cluster's innermost links"));
}

TEST_CASE("the batch must multiply up", "[plan]") {
  CHECK_THAT(complaint_after([](Plan& plan) { plan.batch.microbatches = 0; }),
             ContainsSubstring("0 microbatches train nothing"));
  CHECK_THAT(complaint_after([](Plan& plan) { plan.batch.microbatch = 0; }),
             ContainsSubstring("a microbatch of 0 samples trains nothing"));
  CHECK_THAT(
      complaint_after([](Plan& plan) { plan.batch.global = 9; }),
      ContainsSubstring("the global batch is 9 samples, but it would take 4 microbatches of 2"));
}

TEST_CASE("every replica must have work", "[plan]") {
  CHECK_THAT(complaint_after([](Plan& plan) {
               plan.batch = {4, 1, 4, 0};
             }),
             ContainsSubstring("the 2 replicas of stage 1 cannot share a microbatch of 1 sample"));
  CHECK_THAT(complaint_after([](Plan& plan) {
               plan.batch = {2, 2, 1, 0};
               plan.replicas = ReplicaPolicy::round_robin;
             }),
             ContainsSubstring("the 2 replicas of stage 1 cannot take turns at 1 microbatches"));
}

TEST_CASE("turns must fit the updates between them", "[plan][turns]") {
  const auto stashing = [](Plan& plan) {
    plan.schedule.name = "pipedream";
    plan.weights = WeightPolicy::stashing;
    plan.replicas = ReplicaPolicy::round_robin;
    plan.batch = {8, 1, 8, 0};
  };
  CHECK(complaint_after(stashing).empty());
  Plan plan = good_plan();
  stashing(plan);
  CHECK(shape_of(plan).warm_up == std::vector{4, 3, 1});  // devices from there to the end
  CHECK_THAT(complaint_after([&](Plan& ragged) {
               stashing(ragged);
               ragged.batch = {9, 1, 9, 0};
             }),
             ContainsSubstring("the 2 replicas of stage 1 take turns and update after rounds of 2, "
                               "but 9 microbatches are no whole number of them"));
  CHECK_THAT(complaint_after([&](Plan& narrow) {
               stashing(narrow);
               narrow.schedule.warm_up = {3, 2, 2};
             }),
             ContainsSubstring("the 2 replicas of stage 1 may wait for each other's gradients in a "
                               "circle: stage 2 asks for up to 3"));
  CHECK_THAT(complaint_after([&](Plan& synchronised) {
               stashing(synchronised);
               synchronised.schedule.name = "pipedream-vertical-sync";
               synchronised.weights = WeightPolicy::vertical_sync;
             }),
             ContainsSubstring("names one version for all stages"));
  CHECK_THAT(complaint_after([&](Plan& buffered) {
               stashing(buffered);
               buffered.schedule = {.name = "pipedream-2bw", .group = 3};
               buffered.weights = WeightPolicy::double_buffered;
               buffered.batch = {9, 1, 9, 0};
             }),
             ContainsSubstring("cannot take equally many turns in groups of 3 microbatches"));
}

TEST_CASE("virtual stages must fit the stages, the schedule and the devices", "[plan]") {
  CHECK_THAT(complaint_after([](Plan& plan) { plan.schedule.virtual_stages = 0; }),
             ContainsSubstring("expected at least 1 stage per device"));
  CHECK_THAT(complaint_after([](Plan& plan) {
               plan.schedule = {
                   .name = "interleaved", .virtual_stages = 2, .group = {}, .warm_up = {}};
             }),
             ContainsSubstring("3 stages are not a multiple of 2 virtual stages per device"));
  CHECK_THAT(complaint_after([](Plan& plan) { plan.schedule.virtual_stages = 3; }),
             ContainsSubstring("the schedule 1f1b has one stage per device, not 3"));
  const auto looped = [](Plan& plan) {
    plan.schedule = {.name = "interleaved", .virtual_stages = 2, .group = {}, .warm_up = {}};
    plan.stages = {{{0, 7}, {{0}}, Recompute::none},
                   {{7, 14}, {{1}}, Recompute::none},
                   {{14, 21}, {{0}}, Recompute::none},
                   {{21, 28}, {{1}}, Recompute::none}};
  };
  CHECK(complaint_after(looped).empty());
  CHECK_THAT(complaint_after([&](Plan& plan) {
               looped(plan);
               plan.stages[3].devices = {{2}};
             }),
             ContainsSubstring("stages 1 and 3 share a pipeline device"));
}

TEST_CASE("the schedule must exist and accept the shape", "[plan]") {
  CHECK_THAT(complaint_after([](Plan& plan) { plan.schedule.name = "1b1f"; }),
             ContainsSubstring("unknown schedule \"1b1f\""));
  CHECK_THAT(complaint_after([](Plan& plan) {
               plan.schedule.warm_up = {2, 2};
             }),
             ContainsSubstring("the warm-up lists 2 devices; expected 3"));
}

TEST_CASE("a schedule that nobody could work out is refused before it is made", "[plan]") {
  const auto of = [](int microbatches) {
    return complaint_after([&](Plan& plan) {
      plan.batch.microbatches = microbatches;
      plan.batch.global = std::int64_t{2} * microbatches;
    });
  };
  // Forwards and backwards of three stages: 4,000,002 instructions.
  CHECK_THAT(of(666'667),
             ContainsSubstring("a schedule of 3 stages and 666667 microbatches has more than the "
                               "4000000 instructions that are worked out"));
  CHECK_THAT(of(2'147'483'647), ContainsSubstring("3 stages and 2147483647 microbatches"));
}

TEST_CASE("schedules that cut microbatches need samples to cut", "[plan]") {
  const auto halved = [](std::int64_t microbatch, std::vector<std::vector<int>> first) {
    Plan plan = good_plan();
    plan.schedule.name = "chimera-halving";
    plan.batch = {.global = 4 * microbatch, .microbatch = microbatch, .microbatches = 4};
    plan.stages = {{{0, 7}, std::move(first)}, {{7, 28}, {{3}}}};
    return complaint(plan);
  };
  const std::string cuts = "plan: the schedule chimera-halving cuts each microbatch into 2 parts";
  CHECK(halved(2, {{0}}).empty());
  CHECK(halved(3, {{0}}) == cuts + ", but 3 samples cannot be cut so");
  CHECK(halved(2, {{0}, {1}}) == cuts + " of 1, which the 2 replicas of stage 0 cannot share");
  CHECK(halved(4, {{0}, {1}}).empty());
}

TEST_CASE("copies of the model hold the same layers on the same devices in another order",
          "[plan]") {
  Plan plan = good_plan();
  plan.schedule = {.name = "chimera", .pipes = 2};
  plan.batch = {.global = 4, .microbatch = 1, .microbatches = 4};
  plan.stages = {{{0, 7}, {{0}}}, {{7, 28}, {{2}}}};
  std::vector<LayerCost> layers(28);
  for (LayerCost& layer : layers)
    layer.forward = layer.backward_input = std::chrono::milliseconds(1);
  const Program program = compile(plan, profile_of(layers), cluster_of({{4, {}}})).program;
  CHECK(program.pipes == 2);
  CHECK(program.microbatches == 2);
  std::vector<std::pair<int, int>> places;  // stage, device
  for (const Chunk& chunk : program.chunks) places.emplace_back(chunk.stage, chunk.device);
  CHECK(places == std::vector<std::pair<int, int>>{{0, 0}, {1, 1}, {2, 1}, {3, 0}});
}

TEST_CASE("a plan says how its schedule updates the weights", "[plan]") {
  CHECK(complaint_after([](Plan& plan) { plan.schedule.name = "pipedream"; }) ==
        "plan: the schedule pipedream updates weights by \"stashing\", but the plan says "
        "\"flush\"");
  CHECK_THAT(complaint_after([](Plan& plan) { plan.weights = WeightPolicy::double_buffered; }),
             ContainsSubstring("the schedule 1f1b updates weights by \"flush\""));
  CHECK(complaint_after([](Plan& plan) {
          plan.schedule.name = "pipedream";
          plan.weights = WeightPolicy::stashing;
        }).empty());
  CHECK_THAT(complaint_after([](Plan& plan) {
               plan.schedule.name = "pipedream-2bw";
               plan.weights = WeightPolicy::double_buffered;
             }),
             ContainsSubstring("the microbatches must fill whole groups of 3, but 4 do not"));
}

TEST_CASE("a stage recomputes as a whole, or its layers do by themselves", "[plan]") {
  using enum Recomputed;
  CHECK(complaint_after([](Plan& plan) { plan.stages[0].again = std::vector(7, full); }) == "");
  CHECK(complaint_after([](Plan& plan) {
          plan.stages[0].again = {none, with_next, with_next, full, selective, with_next, full};
        }) == "");
  CHECK_THAT(complaint_after([](Plan& plan) {
               plan.stages[0].again = {none, none, none, none, none, with_next, with_next};
             }),
             ContainsSubstring("layer 6, the last of stage 0, recomputes together with the next"));
  CHECK_THAT(complaint_after([](Plan& plan) {
               plan.stages[0].again = {none, with_next, selective, none, none, none, none};
             }),
             ContainsSubstring("layer 1 of stage 0 recomputes together with layer 2, which does "
                               "not recompute all of itself"));
  CHECK_THAT(complaint_after([](Plan& plan) { plan.stages[0].again = {full}; }),
             ContainsSubstring("stage 0 says of 1 layers what they do again, but has 7"));
  CHECK_THAT(complaint_after([](Plan& plan) { plan.stages[1].again = std::vector(9, full); }),
             ContainsSubstring("stage 1 recomputes as a whole, so its layers cannot"));
  CHECK_THAT(complaint_after([](Plan& plan) {
               plan.schedule.name = "1f1b-decoupled-recompute";
               plan.stages[0].again = std::vector(7, selective);
             }),
             ContainsSubstring("says itself when whole stages recompute, so layers of stage 0"));
}

TEST_CASE("shape and devices of a plan", "[plan]") {
  Plan plan = good_plan();
  CHECK(pipeline_devices(plan) == 3);
  CHECK(used_devices(plan) == std::vector<int>{0, 1, 2, 3});
  CHECK(shape_of(plan).devices == 3);
  CHECK(shape_of(plan).microbatches == 4);
  plan.stages[2].devices = {{9}};
  CHECK(used_devices(plan) == std::vector<int>{0, 1, 2, 9});
}

TEST_CASE("sharding has the names that frameworks have for it") {
  for (const Sharding sharding :
       {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3})
    CHECK(sharding_of_word(to_string(sharding)) == sharding);
  for (const char* word : {"fsdp", "FSDP2", "ZeRO-3", "full_shard", "optim_grads_params"})
    CHECK(sharding_of_word(word) == Sharding::zero3);
  for (const char* word : {"zero-2", "SHARD_GRAD_OP", "optim_grads"})
    CHECK(sharding_of_word(word) == Sharding::zero2);
  for (const char* word : {"zero-1", "distributed-optimizer", "optim"})
    CHECK(sharding_of_word(word) == Sharding::zero1);
  for (const char* word : {"ddp", "zero0", "NO_SHARD"})
    CHECK(sharding_of_word(word) == Sharding::none);
  CHECK_THROWS_AS(sharding_of_word("fdsp"), Error);
}
