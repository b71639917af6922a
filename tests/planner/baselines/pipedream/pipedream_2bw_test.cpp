#include "planner/strategies.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Equal blocks of 3 ms on devices that transfers do not slow down.
Problem blocks(int count, int devices, Bytes parameters = 0, Bytes memory = 0) {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.parameters = parameters;
  cost.output = 4000;
  return problem_of(profile_of(std::vector<LayerCost>(static_cast<std::size_t>(count), cost)),
                    cluster_of({{devices, {}}}, memory), 8, {1});
}

}  // namespace

TEST_CASE("PipeDream-2BW: stages are equal, and all replicated alike", "[pipedream-2bw]") {
  // Weights of 4 GB, 1e9 floats: any replica would add 2 * 1e9 * 12 / d / 1e11 s, shared by w.
  const SearchResult result = search_pipedream_2bw(blocks(12, 4, 4'000'000'000), {});
  const Candidate& best = result.plans.front();
  CHECK(best.plan.stages.size() == 4);
  CHECK(best.objective->value == Approx(3 * 0.003));
  CHECK(result.proved_optimal);
  REQUIRE(best.prediction);
  CHECK(best.prediction->notes.back() == "PipeDream-2BW's planner prints (w, d) = (1, 4)");
}

TEST_CASE("PipeDream-2BW: what rounding down leaves out is said", "[pipedream-2bw]") {
  const SearchResult result = search_pipedream_2bw(blocks(30, 8, 4'000'000'000), {});
  const Candidate& best = result.plans.front();
  REQUIRE(best.plan.stages.size() == 8);
  CHECK(best.plan.stages.back().layers.size() == 9);
  CHECK(best.objective->value == Approx(3 * 0.003));
  REQUIRE(best.prediction);
  CHECK_THAT(best.prediction->notes.back(), ContainsSubstring("it plans 24 of 30 blocks"));
}

TEST_CASE("PipeDream-2BW: more stages than blocks cost it nothing", "[pipedream-2bw]") {
  const SearchResult result = search_pipedream_2bw(blocks(32, 64), {});
  REQUIRE(result.infeasible);
  CHECK_THAT(result.infeasible->reason,
             ContainsSubstring("prints (w, d) = (1, 64), 64 stages for 32 blocks"));
}

TEST_CASE("PipeDream-2BW: two versions of weights and d activations must fit", "[pipedream-2bw]") {
  // 4 stages of 3 blocks: 2 * 3 * 1 MB of weights, 3 blocks * 4 microbatches * 4 kB.
  const Bytes needed = 2 * 3 * 1'000'000 + 3 * 4 * 4000;
  CHECK(search_pipedream_2bw(blocks(12, 4, 1'000'000, needed), {}).plans.size() == 1);
  const SearchResult tight = search_pipedream_2bw(blocks(12, 4, 1'000'000, needed - 1), {});
  REQUIRE(tight.infeasible);
  CHECK(tight.infeasible->reason == "PipeDream-2BW's planner finds no width and depth that fit");
}
