#include "planner/baselines/compatibility.hpp"

#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Two branches between a first and a last layer: 0 -> {1 -> 2, 3} -> 4.
Profile branching() {
  std::vector<LayerCost> costs;
  for (int i = 0; i < 5; ++i) costs.push_back(layer_cost((i + 1) * 1ms, (i + 1) * 2ms));
  for (int i = 0; i < 5; ++i) costs[static_cast<std::size_t>(i)].output = 1000 * (i + 1);
  Profile profile = profile_of(costs);
  profile.model.edges = {{0, 1}, {0, 3}, {1, 2}, {2, 4}, {3, 4}};
  return profile;
}

}  // namespace

TEST_CASE("a stage of another planner may take any layers between two cuts of the graph",
          "[compatibility]") {
  const Problem problem =
      problem_of(branching(), cluster_of({{3, link_of(0ns, 1'000'000)}}), 4, {1}, {"1f1b"});
  const Candidate candidate =
      adopt(problem, "theirs", {{.layers = {0, 3}}, {.layers = {2, 1}}, {.layers = {4}}});
  REQUIRE(candidate.prediction);
  const Plan& plan = candidate.plan;
  CHECK(plan.order == std::vector{0, 3, 1, 2, 4});
  CHECK(plan.stages[0].layers == LayerRange{0, 2});
  const auto& stages = candidate.prediction->stages;
  CHECK(stages[0].forward == 5ms);
  CHECK(stages[1].forward == 5ms);
  CHECK(stages[0].send == 5ms);  // what layers 0 and 3 hand on: 1000 and 4000 bytes
  CHECK(stages[1].send == 7ms);  // layers 2 and 3
  const Profile ordered = in_plan_order(problem.profile, plan);
  CHECK(predict(plan, ordered, problem.cluster).step == candidate.prediction->step);
}

TEST_CASE("a plan's order survives its file, and must suit the model", "[compatibility]") {
  Plan plan;
  plan.order = {0, 3, 1, 2, 4};
  plan.stages = {{{0, 5}, {{0}}}};
  CHECK(read_plan(Json::parse(write_plan(plan), "plan.json")).order == plan.order);
  plan.order = {0, 3, 2, 1, 4};
  CHECK_THROWS_WITH(in_plan_order(branching(), plan),
                    ContainsSubstring("the order puts layer 2 (layer2) before layer 1 (layer1), "
                                      "whose output it reads"));
  plan.order = {0, 3, 3, 1, 4};
  CHECK_THROWS_WITH(in_plan_order(branching(), plan), ContainsSubstring("names layer 3 twice"));
  plan.order = {0, 1, 2};
  CHECK_THROWS_WITH(in_plan_order(branching(), plan),
                    ContainsSubstring("lists 3 layers, but the model has 5"));
}

TEST_CASE("stages stand on the devices their planner names", "[compatibility]") {
  const Problem problem = problem_of(profile_of(std::vector<LayerCost>(4, layer_cost(1ms, 2ms))),
                                     cluster_of({{4, {}}}), 4, {1}, {"1f1b"});
  const std::vector<ForeignStage> stages{{.layers = {0, 1}, .replicas = 2, .devices = {0, 2}},
                                         {.layers = {2, 3}, .replicas = 2, .devices = {1, 3}}};
  const SearchResult result =
      foreign_result(problem, "theirs", stages, {.name = "load", .value = 2, .lower_bound = 1}, 7);
  REQUIRE(result.plans.size() == 1);
  const Candidate& candidate = result.plans.front();
  REQUIRE(candidate.prediction);
  CHECK(candidate.plan.stages[0].devices == std::vector<std::vector<int>>{{0}, {2}});
  CHECK(candidate.objective->value == 2);
  CHECK(result.gap == 0.5);
  CHECK_FALSE(result.proved_optimal);
  CHECK(candidate.plan.search->strategy == "theirs");
}

TEST_CASE("stages that no setting can run are returned with the reason", "[compatibility]") {
  const Problem problem = problem_of(profile_of(std::vector<LayerCost>(4, layer_cost(1ms, 2ms))),
                                     cluster_of({{4, {}}}), 2, {1}, {"1f1b"});
  const Candidate candidate = adopt(problem, "theirs", {{.layers = {0, 1, 2, 3}, .replicas = 4}});
  CHECK_FALSE(candidate.prediction);
  CHECK_FALSE(candidate.rejected.empty());
}
