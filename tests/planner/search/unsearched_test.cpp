// Stages with tensor-parallel degrees of their own: found, and bounded by their work.

#include "planner/search/unsearched.hpp"

#include <set>

#include "planner/problem/objective.hpp"
#include "planner/relaxations/work_bound.hpp"
#include "planner/strategies.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// The second layer gains nothing by two peers, and the first one has so many parameters that
/// replicas of it would have much to sum.
Problem with_different_layers() {
  LayerCost large = layer_cost(8ms, 16ms), small = layer_cost(8ms, 16ms);
  large.parameters = large.gradients = 100'000'000;
  Problem problem = problem_of(profile_of({large, small}),
                               cluster_of({{4, link_of(0ns, 1'000'000'000)}}), 8, {1});
  ProfileEntry halves = problem.profile.entries.front();
  halves.setting.tensor_parallel = 2;
  halves.layers.front() = layer_cost(4ms, 8ms);
  halves.layers.front().parameters = halves.layers.front().gradients = 50'000'000;
  problem.profile.entries.push_back(halves);
  problem.tensor_parallel = {1, 2};
  return problem;
}

/// The devices [first, end) in replicas of so many peers.
std::vector<std::vector<int>> in_replicas(int first, int end, int peers) {
  std::vector<std::vector<int>> replicas;
  for (; first + peers <= end; first += peers) {
    std::vector<int>& own = replicas.emplace_back();
    for (int device = first; device < first + peers; ++device) own.push_back(device);
  }
  return replicas;
}

}  // namespace

TEST_CASE("a stage gets a tensor-parallel degree of its own where that is faster", "[unsearched]") {
  Problem problem = with_different_layers();
  const SearchResult mixed = search_exact(problem, {});
  REQUIRE_FALSE(mixed.plans.empty());
  const Plan& plan = mixed.plans.front().plan;
  REQUIRE(plan.stages.size() == 2);
  CHECK(plan.stages[0].devices == std::vector<std::vector<int>>{{0, 1}});
  CHECK(plan.stages[1].devices == std::vector<std::vector<int>>{{2}, {3}});
  CHECK(mixed.families.has(PlanFamily::any_kind));
  CHECK(mixed.question);
  CHECK(mixed.proved_optimal);
  CHECK_FALSE(mixed.families.leaves_out());
  for (const int degree : {1, 2}) {
    problem.tensor_parallel = {degree};
    const SearchResult one = search_exact(problem, {});
    REQUIRE(one.proved_optimal);
    CHECK_FALSE(one.families.leaves_out());
    CHECK(pace(*one.plans.front().prediction) > pace(*mixed.plans.front().prediction));
  }
}

TEST_CASE("stages that share parameters keep one degree", "[unsearched]") {
  Problem problem = with_different_layers();
  problem.profile.model.ties.push_back({.owner = 0, .user = 1, .parameters = 100});
  const SearchResult found = search_exact(problem, {});
  REQUIRE_FALSE(found.plans.empty());
  std::set<std::size_t> degrees;
  for (const Stage& stage : found.plans.front().plan.stages) {
    for (const std::vector<int>& peers : stage.devices) degrees.insert(peers.size());
  }
  CHECK(degrees.size() == 1);
  CHECK(found.proved_optimal);
  CHECK_FALSE(found.families.leaves_out());
}

TEST_CASE("where one degree is best and all have been searched the bound speaks of all",
          "[unsearched]") {
  Problem problem = with_different_layers();
  problem.profile.entries.back().layers.back() = layer_cost(4ms, 8ms);
  const SearchResult found = search_exact(problem, {});
  REQUIRE(found.proved_optimal);
  CHECK(found.question);
  CHECK_FALSE(found.families.leaves_out());
  CHECK_FALSE(found.families.has(PlanFamily::several_degrees));
}

TEST_CASE("where degrees of their own are not searched the bound speaks of plans with one degree",
          "[unsearched]") {
  Problem problem = with_different_layers();
  // Devices that are not alike.
  problem.cluster.overrides = {{.from = 0, .to = 3, .link = link_of(1ns, 1'000'000'000)}};
  // Work: twelve milliseconds on two devices, or twice that on one, for each layer and microbatch,
  // on four devices.
  const Duration work = 8 * (24ms + 24ms) / 4;
  const SearchResult mixed = search_exact(problem, {});
  CHECK(mixed.families.has(PlanFamily::any_kind));
  CHECK(mixed.lower_bound == work);
  problem.profile.entries.back().layers.back() = layer_cost(4ms, 8ms);
  const SearchResult found = search_exact(problem, {});
  REQUIRE_FALSE(found.plans.empty());
  CHECK(found.families.searched() == found.plans.front().prediction->step);
  CHECK(found.question);
  CHECK(found.families.scope() == "plans whose stages all have the same tensor-parallel degree");
  CHECK(found.families.least_left_out() == work);
  CHECK(found.families.least_left_out() < found.families.searched());
  // Of one degree all plans were searched, in all orders of these devices.
  CHECK(found.lower_bound == found.families.searched());
  CHECK_FALSE(found.plans.front().plan.search->proved_optimal);
}

TEST_CASE("bounds of several searches: each family keeps its least, and all that are left out") {
  using enum PlanFamily;
  FamilyBounds bounds;
  CHECK(bounds.binding() == nullptr);
  CHECK_FALSE(bounds.leaves_out());
  CHECK(bounds.least() == Duration::max());
  bounds.add({.lower_bound = 9ms, .rests_on = "walk"});
  bounds.add({several_degrees, 7ms, "work"});
  bounds.add({several_degrees, 8ms, "tables"});
  CHECK(bounds.scope() == "plans whose stages all have the same tensor-parallel degree");
  bounds.add({unequal_replicas, 9ms});
  CHECK(bounds.leaves_out());
  CHECK(bounds.least_left_out() == 7ms);
  CHECK(bounds.find(several_degrees)->rests_on == "work");
  CHECK(bounds.scope() ==
        "plans whose stages all have the same tensor-parallel degree and equally many replicas in "
        "lockstep");
  // The searched ones bound the answer, unless the best plan is none of them.
  CHECK(bounds.binding()->family == searched);
  bounds.add({any_kind, 8ms, "work of any plan"});
  CHECK(bounds.binding()->family == several_degrees);
  bounds.replace({any_kind, 7ms, "work of any plan"});
  CHECK(bounds.binding()->family == any_kind);
  bounds.cap_searched(5ms);
  CHECK(bounds.searched() == 5ms);
}

TEST_CASE("bounds along several orders of layers speak of the fewest") {
  using enum PlanFamily;
  FamilyBounds bounds;
  bounds.add({other_layer_orders, 5ms, "", 4});
  CHECK(bounds.scope() == "plans along 4 of the model's orders of layers");
  FamilyBounds others;
  others.add({.lower_bound = 1ms});
  others.add({other_layer_orders, 6ms, "", 1});
  others.add({several_degrees, 6ms});
  bounds.add_left_out(others);
  CHECK_FALSE(bounds.has(searched));
  CHECK(bounds.least_left_out() == 5ms);
  CHECK(bounds.scope() ==
        "plans along the model's own order of layers whose stages all have the same "
        "tensor-parallel degree");
  bounds.add({scattered_devices, 4ms});
  CHECK(is_of_consecutive_devices(bounds.scope()));
  bounds.remove_left_out();
  CHECK(bounds.scope() == "plans");
}

TEST_CASE("what is said of each degree of context parallelism is said of all", "[unsearched]") {
  Problem problem = with_different_layers();
  problem.profile.entries.back().layers.back() = layer_cost(4ms, 8ms);
  problem.cluster = cluster_of({{20, link_of(0ns, 1'000'000'000)}});
  problem.global_batch = 40;
  for (const bool is_with_others : {false, true}) {
    if (is_with_others) problem.other_parallelism = {problem.parallelism};
    const SearchResult found = search_exact(problem, {});
    REQUIRE_FALSE(found.plans.empty());
    CHECK(found.families.scope() ==
          "plans whose stages all have the same tensor-parallel degree and equally many replicas "
          "in lockstep");
  }
}

TEST_CASE("no plan takes less than its work whatever degrees its stages have", "[unsearched]") {
  int plans = 0, bounds = 0, of_inference = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    Problem problem = random_problem(seed, {4, 4});
    if (problem.tensor_parallel.size() < 2 || problem.profile.model.layers.size() < 2) continue;
    const bool infers = seed % 4 == 0;
    if (infers) {
      problem.schedules = {{.name = "inference"}};
      problem.recompute = {Recompute::none};
    }
    const Space space(problem);
    const Duration least{ColumnBounds(space).least_of_any_kind()};
    if (least > Duration{0}) ++(infers ? of_inference : bounds);
    const int devices = device_count(problem.cluster);
    const int layers = space.layers();
    for (const Setting& setting : space.settings()) {
      if (setting.schedule.virtual_stages != 1) continue;
      for (int cut = 1; cut < layers; ++cut) {
        for (int first = 1; first < devices; ++first) {
          for (const auto& [here, there] : {std::pair{1, 2}, {2, 1}, {1, 1}, {2, 2}}) {
            Plan plan = space.plan(setting, {.replicas = {1, 1},
                                             .cuts = {0, cut, layers},
                                             .recompute = {Recompute::none, Recompute::none}});
            plan.stages[0].devices = in_replicas(0, first, here);
            plan.stages[1].devices = in_replicas(first, devices, there);
            if (plan.stages[0].devices.empty() || plan.stages[1].devices.empty()) continue;
            const Candidate candidate = space.evaluate("mixed", plan);
            if (!candidate.prediction) continue;
            CHECK(pace(*candidate.prediction) >= least);
            ++plans;
          }
        }
      }
    }
  }
  CHECK(plans > 500);
  CHECK(bounds > 20);
  CHECK(of_inference > 20);
}

TEST_CASE("work is shared by the devices that may be used", "[unsearched]") {
  Problem problem = problem_of(profile_of({layer_cost(8ms, 16ms), layer_cost(8ms, 16ms)}),
                               cluster_of({{6, link_of(0ns, 1'000'000'000)}}), 8, {1});
  const auto least = [&] {
    const Space space(problem);
    return Duration{ColumnBounds(space).least_of_any_kind()};
  };
  CHECK(least() == 8 * 48ms / 6);
  problem.devices = 4;
  CHECK(least() == 8 * 48ms / 4);
  problem.excluded = {0, 1, 2};
  CHECK(least() == 8 * 48ms / 3);
}

TEST_CASE("copies of a microbatch that was asked for are bounded by their work", "[unsearched]") {
  Problem problem = problem_of(profile_of({layer_cost(8ms, 16ms), layer_cost(8ms, 16ms)}),
                               cluster_of({{6, link_of(0ns, 1'000'000'000)}}), 8, {1});
  Plan plan;
  plan.batch = {.global = 8, .microbatch = 4, .microbatches = 2};
  plan.stages = {{{0, 2}, {{0}, {1}, {2}, {3}}}};
  CHECK(least_of_its_kind(Space(problem), plan, Duration::max()) == 0ns);
  problem.microbatch_per_copy = true;
  // All layers of 8 samples, on 6 devices.
  CHECK(least_of_its_kind(Space(problem), plan, Duration::max()) == 8 * 48ms / 6);
  plan.stages.front().devices.pop_back();
  CHECK(least_of_its_kind(Space(problem), plan, Duration::max()) == 0ns);
}
