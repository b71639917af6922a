#include "planner/space/workers.hpp"

#include <atomic>
#include <set>

#include "planner/analysis/risk.hpp"
#include "planner/analysis/shared.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

TEST_CASE("every task is done once, and no worker does two at a time") {
  for (const int threads : {1, 2, 5}) {
    const Workers workers(threads);
    REQUIRE(workers.count() == threads);
    std::vector<std::atomic<int>> times(100);
    std::vector<std::atomic<int>> busy(static_cast<std::size_t>(threads));
    std::atomic<int> faults = 0;
    workers.run(100, [&](int worker, int task) {
      auto& own = busy[static_cast<std::size_t>(worker)];
      if (++own != 1) ++faults;
      ++times[static_cast<std::size_t>(task)];
      --own;
    });
    CHECK(faults == 0);
    for (const std::atomic<int>& each : times) CHECK(each == 1);
  }
  CHECK(Workers(0).count() >= 1);
}

TEST_CASE("of what tasks throw, the first task's is thrown") {
  const auto run = [] {
    Workers(3).run(20, [](int, int task) {
      if (task % 7 == 3) fail("task ", task);
    });
  };
  CHECK(message_of(run).find("task 3") != std::string::npos);
}

TEST_CASE("the answer for a large cluster does not depend on the number of threads",
          "[columns][seconds]") {
  std::vector<LayerCost> costs;
  for (int layer = 0; layer < 14; ++layer) {
    costs.push_back(layer_cost(40us + 1us * (layer % 3), 85us));
    costs.back().saved = 1000;
    costs.back().output = 100;
  }
  Problem problem =
      problem_of(profile_of(costs, 32), cluster_of({{8, {}}, {4, {}}}, 60'000), 512, {32});
  problem.schedules = {{.name = "1f1b"}, {.name = "zb-v", .virtual_stages = 2}, {.name = "gpipe"}};
  std::set<std::string> plans;
  std::set<std::pair<std::int64_t, std::int64_t>> figures;
  for (const int threads : {1, 2, 3, 8}) {
    SearchControl control;
    control.threads = threads;
    control.effort = 20'000'000;
    const SearchResult result = search_exact(problem, control);
    REQUIRE_FALSE(result.plans.empty());
    CHECK(result.families.leaves_out());
    plans.insert(write_plan(result.plans.front().plan));
    figures.emplace(result.lower_bound.count(), result.candidates);
  }
  CHECK(plans.size() == 1);
  CHECK(figures.size() == 1);
}

TEST_CASE("the answer for a few devices does not depend on the number of threads",
          "[search][seconds]") {
  int proved = 0, open = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    Problem problem = random_problem(seed, {8, 5});
    problem.schedules.push_back({.name = "interleaved", .virtual_stages = 2});
    std::set<std::string> plans;
    std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> figures;
    for (const int threads : {1, 2, 5}) {
      SearchControl control;
      control.threads = threads;
      control.effort = seed % 2 == 0 ? 20'000'000 : 100'000;
      const SearchResult result = search_exact(problem, control);
      plans.insert(result.plans.empty() ? "" : write_plan(result.plans.front().plan));
      figures.emplace(result.lower_bound.count(), result.candidates, result.pruned);
      (result.proved_optimal ? proved : open) += 1;
    }
    INFO("seed " << seed);
    CHECK(plans.size() == 1);
    CHECK(figures.size() == 1);
  }
  CHECK(proved > 20);
  CHECK(open > 20);
}

TEST_CASE("searches under other conditions do not depend on the number of threads",
          "[search][seconds]") {
  std::vector<LayerCost> costs;
  for (int layer = 0; layer < 9; ++layer) {
    costs.push_back(layer_cost(40us + 9us * (layer % 4), 85us));
    costs.back().output = 3'000'000;
    costs.back().parameters = 100'000;
  }
  const Problem problem = problem_of(
      profile_of(costs),
      cluster_of({{2, link_of(0us, 1'000'000'000)}, {2, link_of(0us, 10'000'000'000)}}), 8, {1, 2});
  std::set<std::string> risky, shared;
  std::set<std::int64_t> steps;
  for (const int threads : {1, 2, 5}) {
    const SearchControl control{.top = 2, .threads = threads};
    const SearchResult at_risk =
        search_at_risk(search_exact, problem, control, {.level = risk_level("p90")});
    const SearchResult with_others = search_with_shared_links(search_exact, problem, control, {});
    REQUIRE(at_risk.plans.size() == 2);
    REQUIRE(with_others.plans.size() == 2);
    risky.insert(write_plan(at_risk.plans.front().plan));
    shared.insert(write_plan(with_others.plans.front().plan));
    steps.insert(with_others.lower_bound.count());
  }
  CHECK(risky.size() == 1);
  CHECK(shared.size() == 1);
  CHECK(steps.size() == 1);
}

TEST_CASE("a search ends where its plan is near enough to the bound", "[search][seconds]") {
  // With three stages on each of eight devices there are too many layouts: columns have a plan
  // soon, and others are looked at without a proof.
  std::vector<LayerCost> costs;
  for (int layer = 0; layer < 30; ++layer) {
    costs.push_back(layer_cost(40us + 61us * (layer * layer % 7), 85us));
    costs.back().saved = 1000;
    costs.back().parameters = 1'000'000;
    costs.back().gradients = 4'000'000;
    costs.back().output = 100'000;
  }
  Problem problem =
      problem_of(profile_of(costs), cluster_of({{8, link_of(0us, 10'000'000'000)}}), 16, {1});
  problem.schedules = {{.name = "1f1b"}, {.name = "interleaved", .virtual_stages = 3}};
  const SearchControl thorough{.effort = 100'000'000};
  SearchControl early = thorough;
  early.gap = 0.3;
  const SearchResult best = search_exact(problem, thorough);
  const SearchResult near = search_exact(problem, early);
  REQUIRE_FALSE(near.plans.empty());
  CHECK(near.gap <= 0.3);
  CHECK(near.gap > 0);
  CHECK(near.lower_bound <= pace(*best.plans.front().prediction));
  CHECK(10 * (near.candidates + near.pruned) < best.candidates + best.pruned);
}
