#include "planner/search/heuristics/placement.hpp"

#include <numeric>

#include "planner/analysis/certificate.hpp"
#include "planner/costs/predict.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/strategies.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t usual_rate = 1'000'000'000;

/// A layer for each of so many devices, which hand on a megabyte: a millisecond.
Problem straight_problem(int devices) {
  LayerCost cost = layer_cost(10ms, 20ms);
  cost.output = 1'000'000;
  Problem problem =
      problem_of(profile_of(std::vector<LayerCost>(static_cast<std::size_t>(devices), cost)),
                 cluster_of({{devices, link_of(0ns, usual_rate)}}), std::int64_t{2} * devices, {1});
  problem.straight = true;
  problem.use_fewer_devices = false;
  return problem;
}

Duration step_of(const SearchResult& result) {
  REQUIRE_FALSE(result.plans.empty());
  return result.plans.front().prediction->step;
}

Verification verified(const SearchResult& result, const Problem& problem) {
  return verify_bound(result.plans.front().plan, problem.profile, problem.cluster);
}

}  // namespace

TEST_CASE("stages stay clear of a slow link, whichever it is", "[placement]") {
  // Four devices have few orders, eight have many.
  for (const int devices : {4, 8}) {
    Problem problem = straight_problem(devices);
    const Duration alike = step_of(search_exact(problem, {}));
    for (int from = 0; from + 1 < devices; from += is_watched ? 3 : 1) {
      CAPTURE(devices, from);
      // Under 1F1B activations go on, gradients come back: both ways are slow.
      problem.cluster.overrides = {{from, from + 1, link_of(0ns, usual_rate / 100)},
                                   {from + 1, from, link_of(0ns, usual_rate / 100)}};
      CHECK(needs_placement(problem) == (devices == 8));
      const SearchResult found = search_exact(problem, {});
      CHECK(step_of(found) == alike);
      CHECK(found.proved_optimal);
      CHECK(verified(found, problem).holds());
    }
  }
}

TEST_CASE("stages use fast links, and the bound says how fast it could be at best", "[placement]") {
  Problem problem = straight_problem(7);
  const Duration alike = step_of(search_exact(problem, {}));
  const Link fast = link_of(0ns, usual_rate * 100);
  Problem fastest = problem;
  fastest.cluster.levels.front().link = fast;
  const Duration least = step_of(search_exact(fastest, {}));
  // A chain of fast links along every second device, and on to the rest.
  const std::vector<int> chain{0, 2, 4, 6, 1, 3, 5};
  for (std::size_t i = 0; i + 1 < chain.size(); ++i) {
    problem.cluster.overrides.push_back({chain[i], chain[i + 1], fast});
    problem.cluster.overrides.push_back({chain[i + 1], chain[i], fast});
  }
  const SearchResult found = search_exact(problem, {});
  CHECK(step_of(found) == least);
  CHECK(found.proved_optimal);
  // With some of them only, it is somewhere in between.
  problem.cluster.overrides.resize(6);
  const SearchResult some = search_exact(problem, {});
  CHECK(step_of(some) < alike);
  CHECK(step_of(some) > least);
  CHECK(some.lower_bound <= least);
  CHECK_FALSE(some.proved_optimal);
  CHECK(verified(some, problem).holds());
}

TEST_CASE("a cluster with its best links has the best of each level", "[placement]") {
  Cluster cluster = cluster_of({{2, link_of(5us, 1'000)}, {2, link_of(1us, 9'000)}});
  cluster.overrides = {
      {0, 1, link_of(2us, 10'000)}, {0, 2, link_of(4us, 500)}, {1, 3, link_of(6us, 2'000)}};
  const Cluster best = with_best_links(cluster);
  CHECK(best.overrides.empty());
  CHECK(best.levels[0].link == link_of(4us, 2'000));
  CHECK(best.levels[1].link == link_of(1us, 10'000));
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      if (from == to) continue;
      const Link own = link_between(cluster, from, to);
      CHECK(slower(own, link_between(best, from, to)) == own);
    }
  }
}

TEST_CASE("questions to place leave out what slow links begin or end at", "[placement]") {
  Problem problem = straight_problem(7);
  problem.straight = false;
  const Link slow = link_of(0ns, usual_rate / 10);
  problem.cluster.overrides = {{1, 2, slow}, {3, 1, slow}, {1, 4, slow}, {5, 6, slow}};
  const std::vector<Problem> questions = questions_to_place(problem);
  REQUIRE(questions.size() == 3);
  CHECK_FALSE(questions[0].straight);
  CHECK(questions[1].straight);
  CHECK(questions[2].excluded == std::vector<int>{1, 5});
  for (const Problem& question : questions) CHECK(question.cluster.overrides.empty());
  // Where half of the devices would have to go, none is left out.
  Problem pairs = straight_problem(6);
  pairs.cluster.overrides = {{0, 1, slow}, {2, 3, slow}, {4, 5, slow}};
  CHECK(questions_to_place(pairs).size() == 1);
}

TEST_CASE("questions to place keep to the first devices where these are asked for", "[placement]") {
  Problem problem = straight_problem(6);
  problem.straight = false;
  problem.devices = 3;
  problem.cluster.overrides = {{0, 4, link_of(0ns, usual_rate / 100)}};
  const std::vector<Problem> questions = questions_to_place(problem);
  REQUIRE(questions.size() == 3);
  CHECK(devices_in_use(questions[0]) == std::vector{0, 1, 2});
  CHECK(devices_in_use(questions[2]) == std::vector{1, 2});
}

TEST_CASE("on many devices with a slow link, plans of columns are found and placed",
          "[placement]") {
  LayerCost cost = layer_cost(10ms, 20ms);
  cost.output = 1'000'000;
  cost.parameters = cost.gradients = 1'000'000;
  const int boxes = is_watched ? 6 : 8;
  Problem problem =
      problem_of(profile_of(std::vector<LayerCost>(16, cost)),
                 cluster_of({{4, link_of(0ns, usual_rate)}, {boxes, {}}}), 64, {1, 2, 4});
  const Duration alike = step_of(search_exact(problem, {}));
  problem.cluster.overrides = {{3, 4, link_of(0ns, usual_rate / 1000)}};
  const SearchResult found = search_exact(problem, {});
  // At worst as on the other three boxes.
  CHECK(step_of(found) >= alike);
  CHECK(step_of(found) <= 2 * alike);
  CHECK(found.lower_bound <= alike);
}

namespace {

/// Stages of some layers each, on any devices that are left.
Plan random_plan(Random& random, const Problem& problem, std::vector<int> devices) {
  Plan plan;
  plan.batch = {.global = problem.global_batch,
                .microbatch = problem.microbatches.front(),
                .microbatches = static_cast<int>(problem.global_batch)};
  plan.schedule = {.name = random.chance(50) ? "1f1b" : "gpipe"};
  plan.replicas = ReplicaPolicy::round_robin;
  plan.optimizer.sharding = random.chance(30) ? Sharding::zero1 : Sharding::none;
  const int layers = static_cast<int>(problem.profile.model.layers.size());
  for (int first = 0; first < layers && !devices.empty();) {
    const auto left = static_cast<int>(devices.size());
    const int end = left == 1 ? layers : random.between(first + 1, layers);
    const int most = end == layers ? left : left - 1;
    Stage stage{.layers = {first, end}};
    for (int replicas = random.between(1, std::min(most, plan.batch.microbatches)); replicas > 0;
         --replicas) {
      const auto place = devices.begin() + random.between(0, static_cast<int>(devices.size()) - 1);
      stage.devices.push_back({*place});
      devices.erase(place);
    }
    plan.stages.push_back(std::move(stage));
    first = end;
  }
  return plan;
}

}  // namespace

TEST_CASE("on the fastest links any plan takes no longer, on whichever devices", "[placement]") {
  int compared = 0, faster = 0;
  for (std::uint32_t seed = 20'000'000; seed < 20'002'000; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    std::vector<LayerCost> costs;
    for (int layer = random.between(2, 6); layer > 0; --layer) {
      costs.push_back(random_cost(random));
      if (random.chance(30)) costs.back().parameters = costs.back().gradients = 10'000'000;
    }
    std::vector<Level> levels;
    for (int level = random.between(1, 3); level > 0; --level)
      levels.push_back({random.between(1, 4), random_link(random)});
    Problem problem = problem_of(profile_of(costs), cluster_of(levels), random.between(1, 6), {1});
    if (random.chance(40)) {
      problem.profile.model.ties.push_back(
          {.owner = 0, .user = static_cast<int>(costs.size()) - 1, .parameters = 100'000});
    }
    std::vector<int> devices(static_cast<std::size_t>(device_count(problem.cluster)));
    std::iota(devices.begin(), devices.end(), 0);
    const Plan plan = random_plan(random, problem, devices);
    const Prediction own = predict(plan, problem.profile, problem.cluster);
    std::vector<int> numbers(devices.size());
    int next = 0;
    for (const Stage& stage : plan.stages) {
      for (const auto& replica : stage.devices)
        numbers[static_cast<std::size_t>(replica[0])] = next++;
    }
    const Prediction fastest =
        predict(renumbered(plan, numbers), problem.profile, with_fastest_links(problem.cluster));
    REQUIRE(fastest.step <= own.step);
    ++compared;
    faster += fastest.step < own.step ? 1 : 0;
  }
  CHECK(compared == 2000);
  CHECK(faster > 500);
}
