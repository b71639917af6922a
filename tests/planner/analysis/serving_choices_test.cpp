// Latency against throughput: the same devices in other degrees.

#include "planner/analysis/serving_choices.hpp"

#include <array>

#include "profiles/cluster_importers.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;

namespace {

LoadedPlan loaded_of(const char* model, const char* cluster, int peers) {
  LoadedPlan loaded;
  loaded.profile.model = builtin_model(model);
  loaded.cluster = parse_cluster(cluster);
  Plan& plan = loaded.plan;
  plan.model = model;
  plan.cluster = cluster;
  plan.schedule.name = "inference";
  plan.precision = Precision::bfloat16;
  plan.batch = {.sequence = 2048};
  plan.requests = Requests{.output = 256, .chunk = 8192, .memory = 0.92};
  std::vector<int> devices;
  for (int peer = 0; peer < peers; ++peer) devices.push_back(peer);
  plan.stages = {
      {.layers = {0, static_cast<int>(loaded.profile.model.layers.size())}, .devices = {devices}}};
  return loaded;
}

std::vector<std::array<int, 3>> degrees_of(const std::vector<ServingChoice>& choices) {
  std::vector<std::array<int, 3>> degrees;
  for (const ServingChoice& choice : choices)
    degrees.push_back({choice.tensor, choice.pipeline, choice.replicas});
  return degrees;
}

using Degrees3 = std::vector<std::array<int, 3>>;

}  // namespace

TEST_CASE("four devices serve in six ways, the widest with the soonest tokens") {
  const ServingChoices choices = serving_choices(loaded_of("llama3-8b", "4xh100", 4), 4, {});
  CHECK(degrees_of(choices.fit) ==
        Degrees3{{4, 1, 1}, {2, 1, 2}, {2, 2, 1}, {1, 1, 4}, {1, 2, 2}, {1, 4, 1}});
  CHECK(choices.too_large.empty());
  const ServingTable& widest = choices.fit.front().table;
  for (const ServingChoice& choice : choices.fit) {
    CHECK(choice.table.points.front().next_token >= widest.points.front().next_token);
    // Weights of 16 GB on each replica leave less for keys and values than one replica does.
    CHECK(choice.table.room * 10 <= widest.room * 11);
  }
  CHECK(choices.fit[3].table.room % 4 == 0);
}

TEST_CASE("what has no room for its weights is named") {
  const ServingChoices choices = serving_choices(loaded_of("llama3-70b", "4xh100", 4), 4, {});
  // 70.55e9 parameters are 131.4 GiB: half of that fits into 0.92 x 79.11 GiB, beside 1.5 GiB of
  // reserve and some 2 GiB for a pass; all of it does not.
  CHECK(degrees_of(choices.fit) == Degrees3{{4, 1, 1}, {2, 1, 2}, {2, 2, 1}, {1, 2, 2}, {1, 4, 1}});
  CHECK(degrees_of(choices.too_large) == Degrees3{{1, 1, 4}});
}

TEST_CASE("peers divide heads, and a plan that trains serves nobody") {
  // 12 heads: not by 8.
  LoadedPlan gpt2 = loaded_of("gpt2-124m", "8xh100", 1);
  gpt2.plan.batch.sequence = 512;  // it has 1,024 positions
  const ServingChoices choices = serving_choices(gpt2, 8, {});
  for (const ServingChoice& choice : choices.fit) CHECK(choice.tensor <= 4);
  CHECK_FALSE(choices.fit.empty());
  LoadedPlan training = loaded_of("llama3-8b", "4xh100", 4);
  training.plan.schedule.name = "1f1b";
  training.plan.requests.reset();
  CHECK(serving_choices(training, 4, {}).fit.empty());
}
