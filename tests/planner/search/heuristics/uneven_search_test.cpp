#include "planner/search/heuristics/uneven_search.hpp"

#include <filesystem>

#include "planner/search/heuristics/uneven_chains.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/strategies.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/cases.hpp"
#include "tests/planner/published.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// What the search of uneven chains finds by itself in all settings that it knows; or that of
/// balanced layouts, in its own.
std::optional<Duration> best_found(const Problem& problem, bool balanced, int& tried) {
  const Space space(problem);
  const SearchControl control;
  Judge judge(space, control);
  judge.effort().left = 100'000'000;
  UnevenSearch search(space, judge);
  for (const Setting& setting : space.settings()) {
    if (!(balanced ? has_uneven_layouts : has_uneven_chains)(space, setting)) continue;
    ++tried;
    if (balanced) {
      search.add_balanced(setting);
    } else {
      search.add(setting);
    }
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
    cost.parameters = cost.gradients = Bytes{1'000} * random.between(1, 20'000);
    cost.output = Bytes{1'000} * random.between(1, 500);
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
  CHECK(found.families.has(PlanFamily::any_kind));
  CHECK_FALSE(found.proved_optimal);
  CHECK(found.lower_bound <= 160 * (48ms + 3ms) / 17);
}

TEST_CASE("where walks have used up the effort, uneven chains are looked for all the same",
          "[uneven]") {
  const std::filesystem::path file = shared_data() / "pipedream" / "gnmt" / "graph.txt";
  if (!std::filesystem::exists(file)) SKIP("no published profiles at " + shared_folder());
  if (is_watched) SKIP("searches take long without optimization");
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
  const std::vector<int> counts =
      is_watched ? std::vector{16, 17} : std::vector{16, 17, 18, 19, 20, 23};
  for (const int devices : counts) {
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

namespace {

constexpr std::uint32_t problems = is_watched ? 15 : 200;

/// Of random problems on few devices, how much longer what is found takes than the best.
struct Comparison {
  int compared = 0, equal = 0;
  double excess = 0;
};

Comparison compared_with_all(std::uint32_t first, std::uint32_t count, bool balanced) {
  Comparison result;
  int tried = 0;
  for (std::uint32_t seed = first; seed < first + count; ++seed) {
    INFO("seed " << seed);
    Problem problem = random_problem(seed, {6, 4});
    problem.tensor_parallel = {1};
    problem.straight = false;
    std::erase_if(problem.schedules,
                  [](const ScheduleChoice& choice) { return choice.virtual_stages > 1; });
    if (balanced) problem.schedules = {{.name = "looped-bfs", .virtual_stages = 2}};
    if (problem.schedules.empty()) continue;
    problem.devices = device_count(problem.cluster);  // as they come
    const int before = tried;
    const auto found = best_found(problem, balanced, tried);
    if (tried == before) continue;
    const SearchResult every = search_brute_force(problem, {});
    REQUIRE((every.plans.empty() ? !found : true));
    if (!found) continue;
    const Duration best = every.plans.front().prediction->step;
    REQUIRE(*found >= best);
    ++result.compared;
    result.equal += *found == best ? 1 : 0;
    result.excess += seconds(*found - best) / seconds(best);
  }
  return result;
}

}  // namespace

TEST_CASE("chains found by their longest stage are mostly the best, and never better than that",
          "[uneven]") {
  const Comparison chains = compared_with_all(16'000'000, problems, false);
  CAPTURE(chains.compared, chains.equal, chains.excess);
  CHECK(chains.compared > static_cast<int>(problems) * 2 / 5);
  if (is_watched) return;  // too few for averages
  CHECK(chains.equal * 10 > chains.compared * 9);
  CHECK(chains.excess < 0.03 * chains.compared);
}

TEST_CASE("balanced layouts whose replicas change places are never better than the best",
          "[uneven]") {
  const Comparison layouts = compared_with_all(19'000'000, problems, true);
  CAPTURE(layouts.compared, layouts.equal, layouts.excess);
  CHECK(layouts.compared > static_cast<int>(problems) / 5);
  if (is_watched) return;
  CHECK(layouts.equal * 4 > layouts.compared);
  CHECK(layouts.excess < 0.2 * layouts.compared);
}

TEST_CASE("one of several schedules with uneven replicas is found among all of them", "[uneven]") {
  const std::filesystem::path file = shared_data() / "pipedream" / "gnmt" / "graph.txt";
  if (!std::filesystem::exists(file)) SKIP("no published profiles at " + shared_folder());
  if (is_watched) SKIP("searches take long without optimization");
  Problem problem = published_problem(file, "5xgeneric@1.25GB/s", 40);
  problem.schedules = usual_schedule_choices(problem);
  const SearchResult all = search_exact(problem, {});
  REQUIRE_FALSE(all.plans.empty());
  CHECK(replicas_of_stages(all.plans.front().plan) == std::vector<int>{2, 3, 2, 3, 2, 3, 2, 3});
  CHECK(all.plans.front().prediction->step < 970ms);  // balanced stages alone come to 990 ms
}
