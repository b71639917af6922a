// The least memory with which something fits, against all plans there are.

#include <algorithm>
#include <limits>

#include "planner/analysis/answers.hpp"
#include "planner/problem/objective.hpp"
#include "planner/search/infeasible.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/space/space.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Problem with_memory(Problem problem, Bytes memory) {
  DeviceKind& kind = problem.cluster.kinds.front();
  kind.memory_unlimited = false;
  kind.memory = memory;
  return problem;
}

/// Of all plans; nothing if there is none.
std::optional<Bytes> least_by_brute_force(const Problem& problem) {
  SearchControl control;
  control.explain = false;
  control.top = 100'000;
  const auto plans = search_brute_force(with_memory(problem, Bytes{1} << 40), control).plans;
  if (plans.empty()) return {};
  return largest_peak(*std::ranges::min_element(plans, {}, largest_peak));
}

}  // namespace

TEST_CASE("what is missing is what the plan of least memory needs, and with it one is found",
          "[infeasible]") {
  int cases = 0;
  for (std::uint32_t seed = 0; seed < (is_watched ? 40 : 120); ++seed) {
    CAPTURE(seed);
    Problem problem = random_problem(seed, {5, 3});
    if (seed % 3 == 0) problem.schedules = all_schedule_choices();
    const auto least = least_by_brute_force(problem);
    if (!least || *least < 2) continue;
    SearchControl control;
    const SearchResult fitting = search_exact(with_memory(problem, *least), control);
    REQUIRE(fitting.plans.size() == 1);
    CHECK(largest_peak(fitting.plans.front()) <= *least);
    const SearchResult none = search_exact(with_memory(problem, *least - 1), control);
    if (!none.plans.empty()) continue;  // of a kind that brute force does not list
    REQUIRE(none.infeasible);
    CHECK(none.infeasible->short_by == 1);
    ++cases;
  }
  CHECK(cases > (is_watched ? 15 : 60));
}

TEST_CASE("the remedy is the least memory, rounded up to two digits or a whole unit",
          "[infeasible]") {
  // Eight layers that keep 1,000 kB each in flight, and 3,000 kB at the beginning.
  std::vector<LayerCost> costs(8, layer_cost(Duration{1000}, Duration{2000}));
  for (LayerCost& cost : costs) cost.saved = 1'000'000;
  costs.front().saved = 3'000'000;
  Problem problem = problem_of(profile_of(costs), cluster_of({{2, {}}}), 4, {1});
  problem.recompute = {Recompute::none};
  // The first stage has two microbatches in flight, the second one: 2 (3 + n) MB and 7 - n MB.
  problem = with_memory(problem, 1'000'000);
  const SearchResult none = search_exact(problem, {});
  REQUIRE(none.infeasible);
  CHECK(none.infeasible->short_by == 2 * 3'000'000 + 1'000'000 - 1'000'000);
  const auto& remedies = none.infeasible->remedies;
  CHECK(std::ranges::find(remedies, "--memory 6.7MiB") != remedies.end());
}

TEST_CASE("why nothing fits is told as far as it is known when a stop is requested",
          "[infeasible]") {
  const Problem problem = with_memory(random_problem(2, {5, 3}), 1);
  std::stop_source stop;
  stop.request_stop();
  const Infeasible none = explain_infeasible(problem, Space(problem), stop.get_token());
  CHECK(none.remedies.empty());
  CHECK(none.reason == "nothing fits; there was no time to find out why");
}
