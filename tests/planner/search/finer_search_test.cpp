// More stages per device than a search tries by itself, where they are better.

#include "planner/search/finer_search.hpp"

#include <algorithm>

#include "planner/analysis/certificate.hpp"
#include "planner/problem/question.hpp"
#include "planner/search/exact.hpp"
#include "planner/space/schedule_choices.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Equal layers of 3 ms on two devices, a pipeline of microbatches of one sample.
Problem interleaved_on_two(int layers, std::int64_t microbatches) {
  const std::vector<LayerCost> costs(static_cast<std::size_t>(layers), layer_cost(1ms, 2ms));
  Problem problem = problem_of(profile_of(costs), cluster_of({{.count = 2, .link = {}}}),
                               microbatches, {1}, {"1f1b"});
  for (const ScheduleChoice& choice : schedule_choices("interleaved"))
    problem.schedules.push_back(choice);
  problem.straight = true;
  return problem;
}

}  // namespace

TEST_CASE("more stages per device are the answer where they leave less idle", "[search]") {
  const Problem problem = interleaved_on_two(16, 2);
  const SearchResult usual = search_exact(problem, {});
  const SearchResult finer = search_with_finer_stages(problem, {});
  // Two microbatches of 24 ms per device, and a wait of (2 - 1) / v of a microbatch.
  CHECK(pace(*usual.plans.front().prediction) == 2 * 24ms + 24ms / 4);
  CHECK(pace(*finer.plans.front().prediction) == 2 * 24ms + 24ms / 8);
  const Plan& plan = finer.plans.front().plan;
  CHECK(plan.schedule.virtual_stages == 8);
  // The bound is of all that was looked at, and is verified as such.
  REQUIRE(plan.search->question);
  for (const ScheduleChoice& choice : finer_schedule_choices())
    CHECK(std::ranges::count(plan.search->question->schedules, choice) == 1);
  CHECK(finer.lower_bound <= 51ms);
  CHECK(finer.lower_bound >= 48ms);
  CHECK(verify_bound(plan, problem.profile, problem.cluster).fault == "");
}

TEST_CASE("where they are of no use, the answer is that of the question without them", "[search]") {
  const auto are_same = [](const Problem& problem) {
    const SearchResult usual = search_exact(problem, {});
    const SearchResult finer = search_with_finer_stages(problem, {});
    CHECK(write_plan(finer.plans.front().plan) == write_plan(usual.plans.front().plan));
    CHECK(finer.candidates == usual.candidates);
  };
  // Too few layers, and schedules of which not every usual number is asked for.
  are_same(interleaved_on_two(8, 2));
  Problem some = interleaved_on_two(16, 2);
  std::erase_if(some.schedules, [](const auto& choice) { return choice.virtual_stages == 3; });
  are_same(some);
}
