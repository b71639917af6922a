#include "planner/searches/uneven_chains.hpp"

#include <filesystem>

#include "planner/strategies.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/planner/published.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// What the search of uneven chains finds by itself in all settings that it knows.
std::optional<Duration> best_chain(const Problem& problem, int& tried) {
  const Space space(problem);
  const SearchControl control;
  Judge judge(space, control);
  judge.effort().left = 100'000'000;
  UnevenSearch search(space, judge);
  for (const Setting& setting : space.settings()) {
    if (!has_uneven_chains(space, setting)) continue;
    ++tried;
    search.add(setting);
  }
  search.improve([] { return false; });
  return judge.board().best();
}

std::vector<LayerCost> unlike_layers(int count) {
  std::vector<LayerCost> costs;
  Random random(7);
  for (int layer = 0; layer < count; ++layer) {
    LayerCost cost = layer_cost(std::chrono::microseconds(random.between(500, 3000)),
                                std::chrono::microseconds(random.between(1000, 6000)));
    cost.parameters = cost.gradients = 1'000 * random.between(1, 20'000);
    cost.output = 1'000 * random.between(1, 500);
    costs.push_back(cost);
  }
  return costs;
}

}  // namespace

TEST_CASE("a layer that takes sixteen times as long has sixteen of seventeen devices", "[uneven]") {
  // The heavy layer hands on little; the light one has parameters that nobody wants to sum.
  LayerCost heavy = layer_cost(16ms, 32ms), light = layer_cost(1ms, 2ms);
  light.parameters = light.gradients = 1'000'000'000;
  Problem problem = problem_of(profile_of({heavy, light}),
                               cluster_of({{17, link_of(0ns, 100'000'000)}}), 160, {1});
  const SearchResult found = search_exact(problem, {});
  REQUIRE_FALSE(found.plans.empty());
  const Candidate& best = found.plans.front();
  CHECK(replicas_of_stages(best.plan) == std::vector<int>{16, 1});
  CHECK(best.plan.replicas == ReplicaPolicy::round_robin);
  // Ten rounds of the heavy layer, or all of the light one, and one of the other.
  CHECK(best.prediction->step >= 480ms + 3ms);
  CHECK(best.prediction->step <= 480ms + 48ms);
  CHECK(found.lower_bound <= best.prediction->step);
}

TEST_CASE("the bound of equal replicas is none of uneven ones in another order of devices",
          "[uneven]") {
  // The first device has no room for what the heavy layer saves, which comes first.
  LayerCost heavy = layer_cost(16ms, 32ms), light = layer_cost(1ms, 2ms);
  heavy.saved = 5'000'000'000;
  light.parameters = light.gradients = 1'000'000'000;
  Problem problem =
      problem_of(profile_of({heavy, light}),
                 cluster_of({{17, link_of(0ns, 100'000'000)}}, 1'000'000'000'000), 160, {1});
  problem.recompute = {Recompute::none};
  problem.cluster.kinds.push_back(problem.cluster.kinds.front());
  problem.cluster.kinds.back().memory = 3'000'000'000;
  problem.cluster.devices.front() = 1;
  const SearchResult found = search_exact(problem, {});
  REQUIRE_FALSE(found.plans.empty());
  const Candidate& best = found.plans.front();
  CHECK(replicas_of_stages(best.plan) == std::vector<int>{16, 1});
  CHECK(best.plan.stages.back().devices == std::vector<std::vector<int>>{{0}});
  // Nobody searched all of these: what is known is the work of both layers on all devices.
  CHECK(found.bounds_any_kind);
  CHECK_FALSE(found.proved_optimal);
  CHECK(found.lower_bound <= 160 * (48ms + 3ms) / 17);
}

TEST_CASE("where walks have used up the effort, uneven chains are looked for all the same",
          "[uneven]") {
  const std::filesystem::path file = shared_data() / "pipedream" / "gnmt" / "graph.txt";
  if (!std::filesystem::exists(file)) SKIP("no published profiles at " STAGECRAFT_SHARED);
  Problem problem = published_problem(file, "16xgeneric@1GB/s", 64);
  problem.schedules = {{.name = "gpipe"}};
  problem.microbatches = {1};
  const SearchControl control{.effort = 50'000'000};
  const SearchResult found = search_exact(problem, control);
  REQUIRE_FALSE(found.plans.empty());
  // Walks alone come to 866 ms.
  CHECK(found.plans.front().prediction->step < 800ms);
  CHECK(found.lower_bound <= found.plans.front().prediction->step);
}

TEST_CASE("one device more never makes a plan slower where replicas are uneven", "[uneven]") {
  const std::vector<LayerCost> costs = unlike_layers(12);
  Duration before = Duration::max();
  for (const int devices : {16, 17, 18, 19, 20, 23}) {
    CAPTURE(devices);
    const Problem problem = problem_of(
        profile_of(costs), cluster_of({{devices, link_of(1us, 1'000'000'000)}}), 48, {1});
    const SearchResult found = search_exact(problem, {});
    REQUIRE_FALSE(found.plans.empty());
    CHECK(found.plans.front().prediction->step <= before);
    CHECK(found.lower_bound <= found.plans.front().prediction->step);
    before = found.plans.front().prediction->step;
  }
}

TEST_CASE("chains found by their longest stage are mostly the best, and never better than that",
          "[uneven]") {
  int tried = 0, compared = 0, equal = 0;
  double excess = 0;
  for (std::uint32_t seed = 16'000'000; seed < 16'000'200; ++seed) {
    INFO("seed " << seed);
    Problem problem = random_problem(seed, {6, 4});
    problem.tensor_parallel = {1};
    problem.straight = false;
    std::erase_if(problem.schedules,
                  [](const ScheduleChoice& choice) { return choice.virtual_stages > 1; });
    if (problem.schedules.empty()) continue;
    problem.devices = device_count(problem.cluster);  // as they come
    const int before = tried;
    const auto chain = best_chain(problem, tried);
    if (tried == before) continue;
    const SearchResult every = search_brute_force(problem, {});
    REQUIRE((every.plans.empty() ? !chain : true));
    if (!chain) continue;
    const Duration best = every.plans.front().prediction->step;
    REQUIRE(*chain >= best);
    ++compared;
    equal += *chain == best ? 1 : 0;
    excess += seconds(*chain - best) / seconds(best);
  }
  CAPTURE(compared, equal, excess / compared);
  CHECK(compared > 80);
  CHECK(equal * 10 > compared * 9);
  CHECK(excess / compared < 0.03);
}
