// Every objective against all plans there are.

#include "planner/problem/objective.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "planner/analysis/answers.hpp"
#include "planner/search/enumerate/chains.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"
#include "simulator/engines/steady.hpp"
#include "simulator/schedules/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/watched.hpp"

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

TEST_CASE("asynchronous plans are searched as well as by trying everything",
          "[objective][seconds]") {
  const std::string schedule = GENERATE("pipedream", "pipedream-vertical-sync", "pipedream-2bw");
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    CAPTURE(schedule, seed);
    require_best(random_case(seed, schedule, ObjectiveKind::throughput));
  }
}

TEST_CASE("plans whose replicas take turns are searched as well as by trying everything",
          "[objective][turns][seconds]") {
  const std::string schedule = GENERATE("pipedream", "pipedream-2bw");
  int in_turn = 0;
  for (std::uint32_t seed = 0; seed < (is_watched ? 12 : 40); ++seed) {
    CAPTURE(schedule, seed);
    Problem problem = random_case(seed, schedule, ObjectiveKind::throughput);
    const int microbatches = seed % 2 == 0 ? 6 : 12;
    problem.global_batch = problem.microbatches.front() * microbatches;
    problem.straight = false;
    require_best(problem);
    const SearchResult exact = search_exact(problem, {.explain = false});
    if (exact.plans.empty()) continue;
    in_turn += exact.plans.front().plan.replicas == ReplicaPolicy::round_robin ? 1 : 0;
  }
  CHECK(in_turn >= (is_watched ? 1 : 4));
}

TEST_CASE("no bound is above the steady time of plans whose replicas take turns",
          "[objective][turns][seconds]") {
  int compared = 0;
  for (std::uint32_t seed = 100; seed < 130; ++seed) {
    CAPTURE(seed);
    Problem problem = random_case(seed, "pipedream", ObjectiveKind::throughput);
    problem.global_batch = problem.microbatches.front() * 12;
    problem.straight = false;
    const Space space(problem);
    const auto turns =
        std::ranges::find(space.settings(), ReplicaPolicy::round_robin, &Setting::replicas);
    if (turns == space.settings().end()) continue;
    const Time least = LoopedWalk(space, *turns).least();
    for (const Candidate& plan : all_plans(problem)) {
      if (plan.plan.replicas != ReplicaPolicy::round_robin) continue;
      REQUIRE(plan.prediction->steady);
      CHECK(least <= plan.prediction->steady->count());
      // Nor is the work of any replica.
      const Compiled compiled = compile(plan.plan, problem.profile, problem.cluster);
      for (std::size_t chunk = 0; chunk < compiled.program.chunks.size(); ++chunk) {
        const ChunkCosts& costs = compiled.costs.chunks[chunk];
        const int turn = 12 / compiled.program.chunks[chunk].replicas;
        CHECK(turn * (costs.forward + costs.backward) <= *plan.prediction->steady);
      }
      ++compared;
    }
  }
  CHECK(compared > 30);
}

TEST_CASE("inference is searched as well as by trying everything", "[objective][seconds]") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Problem problem = random_case(seed, "inference", ObjectiveKind::latency);
    problem.recompute = {Recompute::none};
    require_best(problem);
  }
}

TEST_CASE("the cheapest plan is the cheapest of all", "[objective][seconds]") {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    require_best(random_case(seed, seed % 3 == 0 ? "gpipe" : "1f1b", ObjectiveKind::cost));
  }
}

/// The least cost of plans on consecutive devices, in whatever order these are.
double least_cost_in_any_order(const Problem& problem) {
  std::vector<int> order(problem.cluster.devices.size());
  std::iota(order.begin(), order.end(), 0);
  double least = std::numeric_limits<double>::infinity();
  do {
    const Problem ordered = in_device_order(problem, order);
    for (const Candidate& plan : all_plans(ordered))
      least = std::min(least, value_of(ordered, plan));
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST_CASE("the cheapest plan may stand on any devices", "[objective][seconds]") {
  int on_others = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Problem problem = random_mixed(seed, {4, 3});
    Random random(seed + 77);
    problem.objective = ObjectiveKind::cost;
    for (DeviceKind& kind : problem.cluster.kinds) kind.price_per_hour = random.between(1, 9);
    problem.use_fewer_devices = true;
    problem.tensor_parallel = {1};
    problem.schedules = {{.name = "1f1b"}};
    const SearchResult found = search_for_objective(search_exact, problem, {.explain = false});
    const double least = least_cost_in_any_order(problem);
    REQUIRE(found.plans.empty() == std::isinf(least));
    if (found.plans.empty()) continue;
    CHECK(value_of(problem, found.plans.front()) <= least);
    CHECK(objective_of(problem, found.plans.front(), found).lower_bound <= least);
    CHECK_FALSE(found.families.leaves_out());
    const std::vector<int> used = used_devices(found.plans.front().plan);
    on_others += used.back() >= static_cast<int>(used.size()) ? 1 : 0;
  }
  CHECK(on_others >= 10);
}

TEST_CASE("of more devices than can be tried in every set, the cheap ones are tried alone",
          "[objective]") {
  Problem problem = problem_of(
      profile_of(std::vector<LayerCost>(2, layer_cost(1ms, 2ms))),
      cluster_of({{3, link_of(5us, 100'000'000)}, {4, link_of(1us, 1'000'000'000)}}), 8, {1});
  problem.objective = ObjectiveKind::cost;
  std::vector<DeviceKind>& kinds = problem.cluster.kinds;
  kinds.push_back(kinds.front());
  kinds.back().name = "cheap";
  kinds.front().price_per_hour = 9;
  kinds.back().price_per_hour = 1;
  problem.profile.entries.push_back(problem.profile.entries.front());
  problem.profile.entries.back().setting.device = "cheap";
  for (std::size_t device = 8; device < 12; ++device) problem.cluster.devices[device] = 1;
  const SearchResult found = search_for_objective(search_exact, problem, {.explain = false});
  REQUIRE(!found.plans.empty());
  CHECK(price_per_hour(problem, found.plans.front().plan) == 1);
  // Sets that were left out have work to do, too, at no lower price.
  CHECK(found.families.has(PlanFamily::scattered_devices));
  CHECK(speaks_of_all_plans(found));
  CHECK(found.proved_optimal);
}

TEST_CASE("an asynchronous iteration holds as much memory as its steady state", "[objective]") {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.parameters = cost.gradients = 1000;
  cost.saved = 100;
  cost.output = 10;
  for (const std::string schedule : {"pipedream", "pipedream-vertical-sync", "pipedream-2bw"}) {
    for (const int p : {1, 2, 3, 4}) {
      CAPTURE(schedule, p);
      const auto peaks = [&](int microbatches) {
        Problem problem =
            problem_of(profile_of(std::vector<LayerCost>(static_cast<std::size_t>(p), cost)),
                       cluster_of({{p, {}}}), microbatches, {1}, {schedule});
        problem.objective = ObjectiveKind::throughput;
        problem.straight = true;
        problem.use_fewer_devices = false;
        problem.recompute = {Recompute::none};
        const SearchResult result = search_brute_force(problem, {});
        REQUIRE(result.plans.size() == 1);
        return device_peaks(result.plans.front().plan, *result.plans.front().prediction);
      };
      CHECK(peaks(2 * p) == peaks(6 * p));
    }
  }
}

TEST_CASE("so does one whose replicas take turns, of less than a straight pipeline of as many",
          "[objective][turns]") {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.parameters = cost.gradients = 1000;
  cost.saved = 100;
  cost.output = 10;
  const std::vector<std::vector<int>> all{{2, 1}, {3, 1}, {2, 2}, {1, 3}, {2, 1, 1}};
  for (const std::vector<int>& replicas : all) {
    const int devices = std::accumulate(replicas.begin(), replicas.end(), 0);
    CAPTURE(replicas);
    const auto peaks = [&](int microbatches) {
      Problem problem = problem_of(profile_of(std::vector<LayerCost>(replicas.size(), cost)),
                                   cluster_of({{devices, {}}}), microbatches, {1}, {"pipedream"});
      problem.objective = ObjectiveKind::throughput;
      const Space space(problem);
      const auto turns =
          std::ranges::find(space.settings(), ReplicaPolicy::round_robin, &Setting::replicas);
      Layout layout{.replicas = replicas, .cuts = {}, .recompute = {}};
      layout.cuts.resize(replicas.size() + 1);
      std::iota(layout.cuts.begin(), layout.cuts.end(), 0);
      layout.recompute.assign(replicas.size(), Recompute::none);
      REQUIRE(space.schedule(*turns, replicas));
      const Candidate candidate = space.evaluate("turns", space.plan(*turns, layout));
      REQUIRE(candidate.prediction);
      return device_peaks(candidate.plan, *candidate.prediction);
    };
    CHECK(peaks(12) == peaks(48));
    // Parameters, gradients, and for each round in flight a version and what a microbatch saves.
    const int rounds = (devices + replicas.front() - 1) / replicas.front();
    CHECK(peaks(48).front() >= 1000 * (1 + rounds) + 100 * rounds);
    CHECK(peaks(48).front() <= 1000 * (1 + rounds) + 100 * rounds + 40 * (rounds + 1));
  }
}

TEST_CASE("PipeDream's steady state has no bubble, and 1f1b has one", "[objective]") {
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(4, layer_cost(1ms, 2ms))),
                               cluster_of({{4, {}}}), 8, {1}, {"pipedream", "1f1b"});
  problem.objective = ObjectiveKind::throughput;
  problem.straight = true;
  const SearchResult result = search_exact(problem, {});
  const Candidate& best = result.plans.front();
  CHECK(best.plan.schedule.name == "pipedream");
  CHECK(best.prediction->steady == 8 * 3ms);
  CHECK(best.prediction->step == (8 + 4 - 1) * 3ms);
  CHECK(objective_of(problem, best, result).value == Approx(8 / 0.024));
}

TEST_CASE("the steady time of random costs is what long runs take", "[objective][seconds]") {
  for (std::uint32_t seed = 0; seed < 5; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<LayerCost> costs;
    for (int i = 0; i < 4; ++i) costs.push_back(random_cost(random));
    Problem problem = problem_of(profile_of(costs), cluster_of({{4, random_link(random)}}), 12, {1},
                                 {"pipedream"});
    problem.objective = ObjectiveKind::throughput;
    problem.straight = true;
    const Candidate best = search_exact(problem, {}).plans.front();
    const auto step_of = [&](int microbatches) {
      Plan plan = best.plan;
      plan.batch.global = plan.batch.microbatches = microbatches;
      return predict(plan, problem.profile, problem.cluster).step;
    };
    // Twelve is a multiple of every window's period up to four devices.
    REQUIRE(step_of(132) - step_of(120) == *best.prediction->steady);
  }
}
