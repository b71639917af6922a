// Questions that may shard in several ways: the answer is the best of all of them, as trying
// everything finds it, its bound holds for all of them, and anybody can verify it.

#include "planner/search/sharding_search.hpp"

#include <algorithm>

#include "planner/analysis/certificate.hpp"
#include "planner/problem/question.hpp"
#include "planner/search/brute_force.hpp"
#include "planner/search/exact.hpp"
#include "planner/space/space.hpp"
#include "profiles/devices.hpp"
#include "profiles/json.hpp"
#include "profiles/model.hpp"
#include "tests/catch.hpp"
#include "tests/planner/shared_cases.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Two to four ways to shard, in any order, of a small question.
Problem of_several_shardings(std::uint32_t seed) {
  Problem problem = shared_problem(seed);
  Random random(seed + 1);
  std::vector<Sharding> all{Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3};
  for (int swap = 0; swap < 6; ++swap)
    std::swap(all[static_cast<std::size_t>(random.between(0, 3))],
              all[static_cast<std::size_t>(random.between(0, 3))]);
  all.resize(static_cast<std::size_t>(random.between(2, 4)));
  problem.optimizer.sharding = all.front();
  problem.other_sharding.assign(all.begin() + 1, all.end());
  problem.one_stage_alone = random.chance(50);
  return problem;
}

}  // namespace

TEST_CASE("of several ways to shard, exact finds what the best of them alone has", "[seconds]") {
  const std::uint32_t count = is_watched ? 20 : 200;
  std::uint32_t found = 0, proved = 0, equal = 0, of_others = 0;
  for (std::uint32_t seed = 31'000'000; seed < 31'000'000 + count; ++seed) {
    INFO("seed " << seed);
    const Problem problem = of_several_shardings(seed);
    std::optional<Duration> best;
    for (const Sharding sharding : sharding_choices(problem)) {
      const SearchResult alone = search_brute_force(with_sharding(problem, sharding), {});
      if (alone.plans.empty()) continue;
      const Duration alone_step = pace(*alone.plans.front().prediction);
      best = std::min(best.value_or(alone_step), alone_step);
    }
    const SearchResult exact = search_exact(problem, {.explain = false});
    const SearchResult every = search_brute_force(problem, {});
    REQUIRE(exact.plans.empty() == !best);
    REQUIRE(every.plans.empty() == !best);
    if (!best) continue;
    ++found;
    REQUIRE(pace(*every.plans.front().prediction) == *best);
    // Exact also tries stages with degrees of their own, which brute force does not.
    const Duration step = pace(*exact.plans.front().prediction);
    REQUIRE(step <= *best);
    REQUIRE(exact.lower_bound <= step);
    equal += step == *best ? 1 : 0;
    proved += exact.proved_optimal ? 1 : 0;
    const Sharding chosen = exact.plans.front().plan.optimizer.sharding;
    of_others += chosen != problem.optimizer.sharding ? 1 : 0;
  }
  CHECK(found * 2 > count);
  // Shares of all 200; the few of a sanitized build say less.
  CHECK(proved * 20 >= found * (is_watched ? 15 : 19));
  CHECK(equal * 10 >= found * (is_watched ? 7 : 9));
  CHECK(of_others * 10 > found);
}

TEST_CASE("a front over several ways to shard has the best of each size", "[seconds]") {
  int several = 0;
  for (std::uint32_t seed = 32'000'000; seed < 32'000'000 + (is_watched ? 5 : 30); ++seed) {
    INFO("seed " << seed);
    const Problem problem = of_several_shardings(seed);
    const SearchResult front = brute_force_front(problem, {}, 8, 1.0 / 16);
    const SearchResult every = search_brute_force(problem, {});
    REQUIRE(front.plans.empty() == every.plans.empty());
    if (front.plans.empty()) continue;
    REQUIRE(pace(*front.plans.front().prediction) == pace(*every.plans.front().prediction));
    std::vector<Sharding> kinds;
    for (const Candidate& plan : front.plans) kinds.push_back(plan.plan.optimizer.sharding);
    several += std::ranges::adjacent_find(kinds, std::not_equal_to{}) != kinds.end() ? 1 : 0;
  }
  CHECK(several > 0);
}

TEST_CASE("the bound over several ways to shard is verified, and no higher one is",
          "[certificate][seconds]") {
  int held = 0;
  for (std::uint32_t seed = 33'000'000; seed < 33'000'000 + (is_watched ? 15 : 40); ++seed) {
    INFO("seed " << seed);
    const Problem problem = of_several_shardings(seed);
    const SearchResult exact = search_exact(problem, {.explain = false});
    if (exact.plans.empty() || !exact.proved_optimal) continue;
    Plan plan = exact.plans.front().plan;
    REQUIRE(plan.search->question == question_of(problem));
    REQUIRE(read_plan(Json::parse(write_plan(plan), "plan")).search->question ==
            question_of(problem));
    const auto verified = [&] { return verify_bound(plan, problem.profile, problem.cluster); };
    CHECK(verified().fault == "");
    plan.search->lower_bound += Duration{1};
    CHECK_FALSE(verified().holds());
    plan.search->lower_bound -= Duration{1};
    // A plan of a way that was not asked for is no answer.
    std::erase(plan.search->question->sharding, plan.optimizer.sharding);
    CHECK_THAT(verified().fault, ContainsSubstring("its sharding is not among them"));
    ++held;
  }
  CHECK(held > (is_watched ? 0 : 10));
}

TEST_CASE("a bound that a plan of another way to shard beats is refuted",
          "[certificate][seconds]") {
  int refuted = 0;
  for (std::uint32_t seed = 35'000'000; seed < 35'000'000 + (is_watched ? 8 : 60); ++seed) {
    INFO("seed " << seed);
    const Problem problem = of_several_shardings(seed);
    const SearchResult best = search_exact(problem, {.explain = false});
    if (best.plans.empty()) continue;
    for (const Sharding sharding : sharding_choices(problem)) {
      const SearchResult alone = search_exact(with_sharding(problem, sharding), {.explain = false});
      if (alone.plans.empty() || !alone.proved_optimal) continue;
      Plan plan = alone.plans.front().plan;
      if (pace(*alone.plans.front().prediction) == pace(*best.plans.front().prediction)) continue;
      // True of its own way, but claimed of all.
      REQUIRE(verify_bound(plan, problem.profile, problem.cluster).holds());
      plan.search->question = question_of(problem);
      const Verification all = verify_bound(plan, problem.profile, problem.cluster);
      CHECK_THAT(all.fault, ContainsSubstring("less than the bound"));
      ++refuted;
    }
  }
  CHECK(refuted > (is_watched ? 0 : 10));
}

TEST_CASE("what shards more is nearer to fit, unless there is nobody to share with") {
  const Model model = builtin_model("gpt2-1558m");
  const auto of = [&](const char* cluster) {
    Problem problem = problem_of({.model = model, .entries = {}}, parse_cluster(cluster), 8, {8});
    problem.precision = Precision::bfloat16;
    problem.sequence = model.sequence;
    for (DeviceKind& kind : problem.cluster.kinds) kind.memory = kind.reserve + (Bytes{1} << 20);
    problem.optimizer.sharding = Sharding::zero1;
    problem.other_sharding = {Sharding::zero2, Sharding::zero3};
    return problem;
  };
  CHECK(nearest_to_fit(of("4xh100"), {}).problem.optimizer.sharding == Sharding::zero3);
  CHECK(nearest_to_fit(of("1xh100"), {}).problem.optimizer.sharding == Sharding::zero1);
  CHECK(nearest_to_fit(of("4xh100"), {}).problem.other_sharding.empty());
  const SearchResult none = search_exact(of("4xh100"), {});
  REQUIRE(none.infeasible);
  CHECK(none.infeasible->short_by > 0);
}

TEST_CASE("plans that shard otherwise than the question says first cost what they cost alone") {
  int others = 0;
  for (std::uint32_t seed = 34'000'000; seed < 34'000'060; ++seed) {
    INFO("seed " << seed);
    const Problem problem = of_several_shardings(seed);
    const Space space(problem);
    for (const Sharding sharding : problem.other_sharding) {
      const Problem alone = with_sharding(problem, sharding);
      const SearchResult exact = search_exact(alone, {.explain = false});
      if (exact.plans.empty()) continue;
      const Candidate& best = exact.plans.front();
      const Candidate again = space.evaluate("again", best.plan);
      REQUIRE(again.prediction);
      CHECK(again.prediction->step == best.prediction->step);
      CHECK(again.prediction->fits);
      // As if it were sharded in the question's first way.
      Plan first = best.plan;
      first.optimizer.sharding = problem.optimizer.sharding;
      const Candidate otherwise = space.evaluate("otherwise", first);
      others += otherwise.prediction && otherwise.prediction->step != best.prediction->step ? 1 : 0;
    }
  }
  CHECK(others > 10);
  // Where gathers take longer than the layers that hide them.
  const Model model = builtin_model("gpt2-124m");
  Problem slow = problem_of({.model = model, .entries = {}}, parse_cluster("4xv100@1GB/s"), 8, {8});
  slow.sequence = model.sequence;
  slow.max_stages = 1;
  slow.use_fewer_devices = false;
  slow.other_sharding = {Sharding::zero3};
  const Candidate alone =
      search_exact(with_sharding(slow, Sharding::zero3), {.explain = false}).plans.at(0);
  REQUIRE(alone.plan.stages.front().devices.size() == 4);
  CHECK(Space(slow).evaluate("again", alone.plan).prediction->step == alone.prediction->step);
}
