#include "planner/costs/request_room.hpp"

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
  const RequestRoom expected{.requests = 24,
                             .device = 0,
                             .each = 320,
                             .weights = 2000,
                             .pass = 100,
                             .reserve = 0,
                             .limit = 10'000};
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

namespace {

/// On one device, with requests.
Plan plan_for_requests(const Model& model, std::int64_t prompt, const Requests& requests) {
  Plan plan;
  plan.schedule.name = "inference";
  plan.precision = Precision::bfloat16;
  plan.batch = {.sequence = prompt};
  plan.requests = requests;
  plan.stages = {{.layers = {0, static_cast<int>(model.layers.size())}, .devices = {{0}}}};
  return plan;
}

}  // namespace

TEST_CASE("Llama 3 8B answers prompts of 65,536 tokens on an H100") {
  Profile profile;
  profile.model = builtin_model("llama3-8b");
  const Cluster cluster = parse_cluster("1xh100");
  const Plan plan = plan_for_requests(profile.model, 65536, {.output = 0, .chunk = 8192});
  const auto room = room_for_requests(plan, profile, cluster);
  REQUIRE(room);
  // 32 layers of 8 key-value heads of 128 numbers, keys and values, two bytes: 8 GiB.
  CHECK(room->each == Bytes{65536} * 32 * 2 * 8 * 128 * 2);
  CHECK(room->weights == 2 * parameters(profile.model));
  CHECK(room->requests == 7);
  // A pass of 8192 tokens works in less than a quarter of a request's keys and values.
  CHECK(room->pass < room->each / 4);
  const Prediction one = predict(plan, profile, cluster);
  CHECK(one.peaks.front().bytes < 27 * (Bytes{1} << 30));
  CHECK(one.peaks.front().bytes > room->weights + room->each);
}

TEST_CASE("requests fit as a plan of them does, and one more does not") {
  Profile profile;
  profile.model = builtin_model("llama3-8b");
  const Cluster cluster = parse_cluster("1xh100");
  for (const auto& [prompt, requests] :
       {std::pair{2048, Requests{.output = 256, .chunk = 8192, .memory = 0.92}},
        std::pair{7000, Requests{.output = 1000, .chunk = 2048}},
        std::pair{512, Requests{.output = 0, .chunk = 100'000, .memory = 0.25}}}) {
    Plan plan = plan_for_requests(profile.model, prompt, requests);
    const auto room = room_for_requests(plan, profile, cluster);
    REQUIRE(room);
    INFO(prompt << ": " << room->requests);
    CHECK(room->limit ==
          static_cast<Bytes>(static_cast<double>(cluster.kinds.front().memory) * requests.memory));
    plan.batch.microbatch = plan.batch.global = room->requests;
    CHECK(predict(plan, profile, cluster).fits);
    plan.batch.microbatch = plan.batch.global = room->requests + 1;
    CHECK_FALSE(predict(plan, profile, cluster).fits);
  }
}

TEST_CASE("where there is no room for a full pass there may be for a smaller one") {
  Profile profile;
  profile.model = builtin_model("llama3-8b");
  Cluster cluster = parse_cluster("1xh100");
  DeviceKind& kind = cluster.kinds.front();
  const Plan plan = plan_for_requests(profile.model, 512, {.output = 0, .chunk = 1 << 20});
  const auto plenty = room_for_requests(plan, profile, cluster);
  REQUIRE(plenty);
  Plan one = plan;
  kind.memory = predict(one, profile, cluster).peaks.front().bytes;
  CHECK(room_for_requests(plan, profile, cluster)->requests == 1);
  kind.memory -= 1;
  CHECK(room_for_requests(plan, profile, cluster)->requests == 0);
}

TEST_CASE("a head that shares the embedding's weights and its device has none of its own") {
  Profile profile;
  profile.model = builtin_model("gpt2-124m");
  REQUIRE(profile.model.ties.size() == 1);
  const Cluster cluster = parse_cluster("2xh100");
  Plan plan = plan_for_requests(profile.model, 512, {.output = 16});
  const auto weights = [&](const Plan& of) {
    Bytes sum = 0;
    for (const MemoryPeak& peak : predict(of, profile, cluster).peaks)
      sum += peak.use[static_cast<std::size_t>(MemoryCategory::parameters)];
    return sum;
  };
  CHECK(weights(plan) == 2 * parameters(profile.model));
  // Two peers have a half each of 50,257 rows, rounded up; norms and biases of outputs are whole.
  // On two stages each has the table.
  const int layers = static_cast<int>(profile.model.layers.size());
  plan.stages = {{.layers = {0, 6}, .devices = {{0}}}, {.layers = {6, layers}, .devices = {{1}}}};
  CHECK(weights(plan) == 2 * (parameters(profile.model) + 50257 * 768));
  // What is trained keeps both.
  plan.requests.reset();
  plan.schedule.name = "1f1b";
  plan.stages = {{.layers = {0, layers}, .devices = {{0}}}};
  CHECK(weights(plan) == 2 * (parameters(profile.model) + 50257 * 768));
}
