#include "planner/analysis/requests.hpp"

#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Three layers whose keys and values are 8 numbers of each token.
Profile serving_profile() {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.parameters = 1000;
  cost.saved = 100;
  Profile profile = profile_of({cost, cost, cost}, 2);
  profile.model.sequence = profile.entries.front().setting.sequence = 10;
  profile.entries.front().setting.precision = Precision::bfloat16;
  for (Layer& layer : profile.model.layers) {
    layer.steps = {{.kind = StepKind::product, .name = "key", .outputs = 4, .inputs = 4},
                   {.kind = StepKind::attention,
                    .name = "attention",
                    .heads = 2,
                    .key_value_heads = 1,
                    .score_width = 4,
                    .value_width = 4}};
  }
  return profile;
}

Plan serving_plan(int microbatches) {
  Plan plan;
  plan.schedule.name = "inference";
  plan.precision = Precision::bfloat16;
  plan.batch = {.global = std::int64_t{2} * microbatches,
                .microbatch = 2,
                .microbatches = microbatches,
                .sequence = 10};
  plan.stages = {{.layers = {0, 2}, .devices = {{0}}}, {.layers = {2, 3}, .devices = {{1}}}};
  return plan;
}

}  // namespace

TEST_CASE("requests fit until the first device is full of keys and values") {
  const Profile profile = serving_profile();
  const Cluster cluster = cluster_of({{2, {}}}, 10'000);
  // Two layers keep 2 x 8 x 10 numbers of 2 bytes each; beside 2000 bytes of weights and 100 of
  // one layer's work there is room for 12 microbatches of 2, of which 13 would take 8320 bytes.
  const RequestRoom expected{.requests = 24, .device = 0, .each = 320};
  for (const int microbatches : {1, 3, 20})
    CHECK(room_for_requests(serving_plan(microbatches), profile, cluster) == expected);
  CHECK(predict(serving_plan(12), profile, cluster).fits);
  CHECK_FALSE(predict(serving_plan(13), profile, cluster).fits);
}

TEST_CASE("without a limit, without keys, or in training nobody asks how many requests fit") {
  CHECK_FALSE(room_for_requests(serving_plan(2), serving_profile(), cluster_of({{2, {}}})));
  Profile keyless = serving_profile();
  for (Layer& layer : keyless.model.layers) layer.steps.clear();
  const Cluster cluster = cluster_of({{2, {}}}, 10'000);
  CHECK_FALSE(room_for_requests(serving_plan(2), keyless, cluster));
  Plan training = serving_plan(2);
  training.schedule.name = "1f1b";
  CHECK_FALSE(room_for_requests(training, serving_profile(), cluster));
}
