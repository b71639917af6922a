// Serving: prompts and tokens apart, latency against throughput.

#include "planner/analysis/serving_table.hpp"

#include "planner/costs/compile.hpp"
#include "profiles/cluster_importers.hpp"
#include "profiles/operations.hpp"
#include "profiles/profile.hpp"
#include "simulator/analyses/serving.hpp"
#include "simulator/schedules/schedules.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;

namespace {

Plan plan_to_serve(const Model& model, int stages, int peers) {
  Plan plan;
  plan.schedule.name = "inference";
  plan.batch = {.global = 8, .microbatch = 1, .microbatches = 8, .sequence = 1024};
  plan.precision = Precision::bfloat16;
  const int layers = static_cast<int>(model.layers.size());
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<int> devices;
    for (int peer = 0; peer < peers; ++peer) devices.push_back(stage * peers + peer);
    plan.stages.push_back(
        {.layers = {layers * stage / stages, layers * (stage + 1) / stages}, .devices = {devices}});
  }
  return plan;
}

}  // namespace

TEST_CASE("a token takes at least the reading of all weights, and more with more requests") {
  Profile profile;
  profile.model = builtin_model("llama3-8b");
  const Cluster cluster = parse_cluster("2xh100");
  const Plan plan = plan_to_serve(profile.model, 1, 1);
  const auto table = serving_table(plan, profile, cluster, {.prompt = 1024, .output = 128});
  REQUIRE(table);
  const double bandwidth =
      static_cast<double>(cluster.kinds.front().memory_bandwidth.bytes_per_second);
  // The embedding is looked up, not read.
  const double weights = 2.0 * (8.03e9 - 128256.0 * 4096);
  const ServingPoint& one = table->points.front();
  CHECK(one.requests == 1);
  CHECK(seconds(one.next_token) > weights / bandwidth);
  // At the rate that memory reaches, and some 350 kernels with a start each.
  CHECK(seconds(one.next_token) < 2 * weights / bandwidth);
  CHECK(one.first_token > 2 * one.next_token);
  for (std::size_t i = 1; i < table->points.size(); ++i) {
    CHECK(table->points[i].next_token >= table->points[i - 1].next_token);
    CHECK(table->points[i].tokens_per_second > table->points[i - 1].tokens_per_second);
  }
  // 16 GB of weights; 1152 tokens of 32 layers' 2 x 1024 numbers.
  const double each = 1152.0 * 32 * 2048 * 2;
  CHECK(static_cast<double>(table->room) < (79.1 * 1.0737e9 - weights) / each);
  CHECK(table->points.back().requests == table->room);
}

TEST_CASE("as many batches as stages go round, each token behind the last") {
  Profile profile;
  profile.model = builtin_model("llama3-8b");
  const Cluster cluster = parse_cluster("4xh100");
  const Plan plan = plan_to_serve(profile.model, 4, 1);
  const auto table = serving_table(plan, profile, cluster, {.prompt = 512, .output = 64});
  REQUIRE(table);
  // Twice as many requests on as many batches take longer, never twice as long: weights are shared.
  const ServingPoint& four = table->points[2];
  const ServingPoint& eight = table->points[3];
  CHECK(four.requests == 4);
  CHECK(eight.next_token > four.next_token);
  CHECK(eight.next_token < 2 * four.next_token);
  // One request uses one stage at a time, four use all: as long for each.
  CHECK(table->points[0].next_token <= four.next_token);
  CHECK(four.tokens_per_second > 3 * table->points[0].tokens_per_second);
}

TEST_CASE("where stages are uneven, two requests wait for the longest") {
  Profile profile;
  profile.model = builtin_model("llama3-8b");
  Plan plan = plan_to_serve(profile.model, 2, 1);
  const int layers = static_cast<int>(profile.model.layers.size());
  plan.stages[0].layers = {0, layers - 4};
  plan.stages[1].layers = {layers - 4, layers};
  const auto table =
      serving_table(plan, profile, parse_cluster("2xh100"), {.prompt = 512, .output = 64});
  REQUIRE(table);
  // Each alone in its batch, so that only the waiting is longer.
  const Duration one = table->points[0].next_token, two = table->points[1].next_token;
  CHECK(two > one + one / 4);
  CHECK(two < 2 * one);
}

TEST_CASE("replicas serve their own requests") {
  Profile profile;
  profile.model = builtin_model("llama3-8b");
  const Cluster cluster = parse_cluster("2xh100");
  Plan plan = plan_to_serve(profile.model, 1, 1);
  const auto alone = serving_table(plan, profile, cluster, {.prompt = 512, .output = 64});
  plan.stages.front().devices.push_back({1});
  plan.batch.microbatch = 2;
  plan.batch.global = 16;
  const auto both = serving_table(plan, profile, cluster, {.prompt = 512, .output = 64});
  REQUIRE(alone);
  REQUIRE(both);
  CHECK(both->room == 2 * alone->room);
  CHECK(both->points[1].requests == 2 * alone->points[1].requests);
  CHECK(both->points[1].next_token == alone->points[1].next_token);
  CHECK(both->points[1].tokens_per_second == Approx(2 * alone->points[1].tokens_per_second));
}

TEST_CASE("a token meets some experts, a prompt all") {
  const Model model = builtin_model("mixtral-8x7b");
  const auto bytes_of_experts = [&](std::int64_t tokens) {
    const LayerOperations layer = layer_operations(*model.transformer, model.layers[1],
                                                   {.microbatch = 1, .sequence = tokens});
    for (const Operation& operation : layer.operations) {
      if (operation.name == "expert up" && operation.pass == Pass::forward) return operation.bytes;
    }
    return 0.0;
  };
  const double all = 8.0 * 2 * 14336 * 4096 * 2;  // experts, gate and up, two bytes
  CHECK(bytes_of_experts(1) == Approx(all * 2 / 8).epsilon(0.001));
  CHECK(bytes_of_experts(4096) > all);
  CHECK(bytes_of_experts(2) == Approx(all * (1 - 0.75 * 0.75)).epsilon(0.001));
}

TEST_CASE("of a mixture few requests read a part of the experts, many all") {
  Profile profile;
  profile.model = builtin_model("mixtral-8x7b");
  const Plan plan = plan_to_serve(profile.model, 1, 2);
  const auto table =
      serving_table(plan, profile, parse_cluster("2xh100"), {.prompt = 1024, .output = 128});
  REQUIRE(table);
  for (std::size_t i = 1; i < table->points.size(); ++i)
    CHECK(table->points[i].next_token >= table->points[i - 1].next_token);
  // 2 of 8 experts for one request; for sixteen nearly all of them.
  CHECK(table->points[4].requests == 16);
  CHECK(seconds(table->points[4].next_token) > 1.8 * seconds(table->points[0].next_token));
}

TEST_CASE("a plan says how long its requests are, and one that does not ends where positions do") {
  const Model model = builtin_model("gpt2-124m");  // 1024 positions
  Plan plan = plan_to_serve(model, 1, 1);
  CHECK(request_shape(plan, model)->prompt == 1024 - 256);
  plan.batch.sequence = 100;
  CHECK(request_shape(plan, model)->prompt == 100);
  CHECK(request_shape(plan, model)->output == 256);
  plan.requests = Requests{.output = 24};
  CHECK(request_shape(plan, model)->output == 24);
  plan.requests->output = 0;
  CHECK_FALSE(request_shape(plan, model));
}

TEST_CASE("a prompt in small chunks takes longer, and leaves room for more requests") {
  Profile profile;
  profile.model = builtin_model("llama3-8b");
  const Cluster cluster = parse_cluster("2xh100");
  Plan plan = plan_to_serve(profile.model, 1, 1);
  const auto table = [&](std::int64_t chunk) {
    plan.requests = Requests{.output = 64, .chunk = chunk};
    return *serving_table(plan, profile, cluster, {.prompt = 4096, .output = 64});
  };
  const ServingTable whole = table(8192), small = table(64);
  CHECK(small.points.front().first_token > whole.points.front().first_token);
  CHECK(small.points.front().next_token == whole.points.front().next_token);
  CHECK(small.room > whole.room);
}

TEST_CASE("who trains, and who was measured, serves nobody here") {
  Profile profile;
  profile.model = builtin_model("llama3-8b");
  const Cluster cluster = parse_cluster("2xh100");
  Plan plan = plan_to_serve(profile.model, 1, 1);
  plan.schedule.name = "1f1b";
  CHECK_FALSE(serving_table(plan, profile, cluster, {.prompt = 512, .output = 64}));
}
