// Every objective against all plans there are.

#include "planner/objective.hpp"

#include <map>

#include "planner/answers.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"
#include "simulator/schedules.hpp"
#include "simulator/steady.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

Problem random_case(std::uint32_t seed, const std::string& schedule, ObjectiveKind objective) {
  Problem problem = random_problem(seed, {4, 3});
  Random random(seed + 77);
  problem.schedules = {{.name = schedule}};
  problem.objective = objective;
  const std::int64_t samples = problem.microbatches.front();
  problem.global_batch = samples * random.between(1, 8);
  for (DeviceKind& kind : problem.cluster.kinds) kind.price_per_hour = random.between(1, 9);
  return problem;
}

std::vector<Candidate> all_plans(const Problem& problem) {
  SearchControl control;
  control.top = 100'000;
  control.explain = false;
  return search_brute_force(problem, control).plans;
}

double value_of(const Problem& problem, const Candidate& candidate) {
  return objective_of(problem, candidate, {}).value;
}

/// The exact search finds the time of the best of all plans, and proves it.
void require_best(const Problem& problem) {
  const std::vector<Candidate> plans = all_plans(problem);
  SearchControl control;
  control.explain = false;
  const SearchResult exact = search_for_objective(search_exact, problem, control);
  REQUIRE(exact.plans.empty() == plans.empty());
  if (plans.empty()) return;
  const bool most = problem.objective == ObjectiveKind::throughput;
  double best = value_of(problem, plans.front());
  for (const Candidate& plan : plans) {
    const double value = value_of(problem, plan);
    best = most ? std::max(best, value) : std::min(best, value);
  }
  const double found = value_of(problem, exact.plans.front());
  if (exact.lower_bound == 0ns && best != found) {
    // Another planner's plan, which the space does not have.
    REQUIRE(most == (found > best));
    return;
  }
  REQUIRE(found == best);
  REQUIRE(exact.proved_optimal);
  const Objective objective = objective_of(problem, exact.plans.front(), exact);
  REQUIRE(objective.lower_bound == objective.value);
}

}  // namespace

TEST_CASE("asynchronous plans are searched as well as by trying everything", "[objective]") {
  const std::string schedule = GENERATE("pipedream", "pipedream-vertical-sync", "pipedream-2bw");
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    CAPTURE(schedule, seed);
    require_best(random_case(seed, schedule, ObjectiveKind::throughput));
  }
}

TEST_CASE("inference is searched as well as by trying everything", "[objective]") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Problem problem = random_case(seed, "inference", ObjectiveKind::latency);
    problem.recompute = {Recompute::none};
    require_best(problem);
  }
}

TEST_CASE("the cheapest plan is the cheapest of all", "[objective]") {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    require_best(random_case(seed, seed % 3 == 0 ? "gpipe" : "1f1b", ObjectiveKind::cost));
  }
}
