// Plans that the search does not know, made better step by step.

#include "planner/search/heuristics/nearby.hpp"

#include "planner/baselines/compatibility.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

bool any_plan(const Plan&) {
  return true;
}

Problem equal_layers(int layers, int devices) {
  return problem_of(
      profile_of(std::vector<LayerCost>(static_cast<std::size_t>(layers), layer_cost(10ms, 20ms))),
      cluster_of({{devices, {}}}), 8, {1});
}

}  // namespace

TEST_CASE("a bad cut between devices in any order moves to the middle", "[nearby]") {
  const Problem problem = equal_layers(8, 2);
  const Candidate start = adopt(
      problem, "theirs", {{.layers = {0}, .devices = {1}}, {.layers = {1, 2, 3, 4, 5, 6, 7}}});
  REQUIRE(start.prediction);
  CHECK(start.prediction->step == (8 * 7 + 1) * 30ms);
  Effort effort{.left = 1'000'000};
  const Candidate better = best_nearby(problem, start, any_plan, effort);
  CHECK(better.prediction->step == (8 + 1) * 4 * 30ms);
  CHECK(better.plan.stages[0].layers == LayerRange{0, 4});
  CHECK(better.plan.stages[0].devices == std::vector<std::vector<int>>{{1}});
  CHECK(effort.left < 1'000'000);
}

TEST_CASE("devices go where the work is", "[nearby]") {
  const Problem problem = equal_layers(8, 4);
  // Three of four devices for one of eight layers; cuts may not move.
  const Candidate start = adopt(problem, "theirs",
                                {{.layers = {0, 1}, .replicas = 3, .devices = {3, 2, 1}},
                                 {.layers = {2, 3, 4, 5, 6, 7}, .devices = {0}}});
  REQUIRE(start.prediction);
  const auto same_cuts = [&](const Plan& plan) {
    return plan.stages[0].layers == LayerRange{0, 2};
  };
  Effort effort{.left = 10'000'000};
  const Candidate better = best_nearby(problem, start, same_cuts, effort);
  CHECK(better.plan.stages[1].devices.size() == 3);
  CHECK(better.prediction->step < start.prediction->step);
  validate(better.plan, problem.profile.model, problem.cluster);
}

TEST_CASE("without effort, or without leave, a plan stays as it is", "[nearby]") {
  const Problem problem = equal_layers(8, 2);
  const Candidate start = adopt(
      problem, "theirs", {{.layers = {0}, .devices = {1}}, {.layers = {1, 2, 3, 4, 5, 6, 7}}});
  Effort none{.left = 0};
  CHECK(best_nearby(problem, start, any_plan, none).plan == start.plan);
  Effort some{.left = 1'000'000};
  CHECK(best_nearby(
            problem, start, [](const Plan&) { return false; }, some)
            .plan == start.plan);
}
