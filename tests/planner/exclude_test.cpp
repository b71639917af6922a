// Devices that no plan may use. Flat networks say what is to be expected: a cluster without the
// excluded devices is another cluster, of the others.

#include <algorithm>

#include "planner/analysis/certificate.hpp"
#include "planner/search/heuristics/usual_choices.hpp"
#include "planner/space/space.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/planner/compared.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Up to all but one device of the cluster, ascending.
std::vector<int> random_devices(Random& random, const Cluster& cluster) {
  std::vector<int> chosen;
  const int all = device_count(cluster);
  for (int device = 0; device < all; ++device) {
    if (static_cast<int>(chosen.size()) < all - 1 && random.chance(40)) chosen.push_back(device);
  }
  return chosen;
}

/// What is left of a cluster of one level, and its devices' numbers there.
Cluster without(const Cluster& cluster, const std::vector<int>& excluded, std::vector<int>& left) {
  Cluster smaller = cluster;
  smaller.devices.clear();
  for (int device = 0; device < device_count(cluster); ++device) {
    if (std::binary_search(excluded.begin(), excluded.end(), device)) continue;
    left.push_back(device);
    smaller.devices.push_back(cluster.devices[static_cast<std::size_t>(device)]);
  }
  smaller.levels.front().count = static_cast<int>(left.size());
  return smaller;
}

/// The plan with its devices renamed.
std::vector<Stage> renamed(std::vector<Stage> stages, const std::vector<int>& names) {
  for (Stage& stage : stages) {
    for (auto& peers : stage.devices) {
      for (int& device : peers) device = names[static_cast<std::size_t>(device)];
    }
  }
  return stages;
}

bool uses_any(const Plan& plan, const std::vector<int>& devices) {
  const std::vector<int> used = used_devices(plan);
  return std::any_of(used.begin(), used.end(), [&](int device) {
    return std::binary_search(devices.begin(), devices.end(), device);
  });
}

/// Llama-like layers on nodes of 8 devices, more than are walked through one by one.
Problem on_nodes(int nodes) {
  Problem problem = problem_of(
      profile_of(std::vector<LayerCost>(12, layer_cost(1ms, 2ms)), 8),
      cluster_of({{nodes, link_of(1us, 1'000'000'000)}, {8, link_of(1us, 100'000'000'000)}}), 32,
      {8});
  return problem;
}

Duration step_of(const SearchResult& result) {
  REQUIRE_FALSE(result.plans.empty());
  return result.plans.front().prediction->step;
}

}  // namespace

TEST_CASE("on a flat network, excluded devices are as if they did not exist", "[exclude]") {
  int compared = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    INFO("seed " << seed);
    Problem problem = random_mixed(seed, {.layers = 4, .devices = 4});
    if (problem.cluster.levels.size() > 1) continue;
    Random random(seed);
    problem.tensor_parallel = {1};
    problem.excluded = random_devices(random, problem.cluster);
    Problem smaller = problem;
    std::vector<int> left;
    smaller.excluded.clear();
    smaller.cluster = without(problem.cluster, problem.excluded, left);
    const SearchControl quiet{.explain = false};
    const SearchResult found = search_brute_force(problem, quiet);
    const SearchResult expected = search_brute_force(smaller, quiet);
    REQUIRE(found.plans.size() == expected.plans.size());
    if (found.plans.empty()) continue;
    ++compared;
    CHECK(found.plans.front().plan.stages == renamed(expected.plans.front().plan.stages, left));
    CHECK(step_of(found) == step_of(expected));
  }
  CHECK(compared > 10);
}

TEST_CASE("the search finds what brute force does without the excluded devices", "[exclude]") {
  for (std::uint32_t seed = 100; seed < 130; ++seed) {
    INFO("seed " << seed);
    Problem problem = random_problem(seed, {.layers = 4, .devices = 4});
    Random random(seed);
    problem.excluded = random_devices(random, problem.cluster);
    SearchResult all, found;
    try {
      all = search_brute_force(problem, {.explain = false});
      found = search_exact(problem, {.explain = false});
    } catch (const Error&) {
      continue;  // no tensor-parallel peers are left
    }
    REQUIRE(found.plans.empty() == all.plans.empty());
    if (found.plans.empty()) continue;
    if (is_searched(problem, found.plans.front().plan)) {
      CHECK(step_of(found) == step_of(all));
    } else {
      CHECK(step_of(found) < step_of(all));
    }
    CHECK_FALSE(uses_any(found.plans.front().plan, problem.excluded));
    for (const Candidate& usual : usual_choices(problem)) {
      CHECK_FALSE(uses_any(usual.plan, problem.excluded));
    }
  }
}

TEST_CASE("without a whole node, large clusters plan as without that node", "[exclude][seconds]") {
  Problem problem = on_nodes(4);
  for (int device = 8; device < 16; ++device) problem.excluded.push_back(device);
  const SearchResult found = search_exact(problem, {.explain = false});
  CHECK_FALSE(uses_any(found.plans.front().plan, problem.excluded));
  CHECK(step_of(found) == step_of(search_exact(on_nodes(3), {.explain = false})));
}

TEST_CASE("columns leave out blocks with an excluded device", "[exclude][seconds]") {
  Problem problem = on_nodes(3);
  problem.excluded = {11};
  const Space space(problem);
  const Setting& setting = space.settings().front();
  CHECK(space.devices(setting) == 23);
  for (const Setting& column : space.columns(setting)) {
    // Blocks of c devices inside a node of 7 or 8.
    CHECK(space.devices(column) == 2 * (8 / column.columns) + 7 / column.columns);
  }
  const SearchResult found = search_exact(problem, {.explain = false});
  CHECK_FALSE(uses_any(found.plans.front().plan, problem.excluded));
  CHECK(step_of(found) >= step_of(search_exact(on_nodes(3), {.explain = false})));
}

TEST_CASE("peers are the neighbours that are left inside a node", "[exclude]") {
  Problem problem = on_nodes(2);
  ProfileEntry pairs = problem.profile.entries.front();
  pairs.setting.tensor_parallel = 2;
  problem.profile.entries.push_back(pairs);
  problem.tensor_parallel = {2};
  problem.excluded = {1, 9, 10};
  const Space space(problem);
  const Setting& setting = space.settings().front();
  CHECK(space.devices(setting) == 3 + 3);
  CHECK(space.peers(setting, 0) == std::vector{0, 2});
  CHECK(space.peers(setting, 1) == std::vector{3, 4});
  CHECK(space.peers(setting, 3) == std::vector{8, 11});
}

TEST_CASE("a number of devices counts only those that may be used", "[exclude]") {
  Problem problem = on_nodes(2);
  problem.devices = 3;
  problem.excluded = {0, 2};
  const SearchResult found = search_exact(problem, {.explain = false});
  for (const int device : used_devices(found.plans.front().plan)) {
    CHECK((device == 1 || device == 3 || device == 4));
  }
}

TEST_CASE("a plan says which devices were excluded, and its bound is one of the others",
          "[exclude]") {
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(3, layer_cost(1ms, 2ms))),
                               cluster_of({{3, {}}}), 6, {1});
  problem.excluded = {1};
  const Plan found = search_exact(problem, {}).plans.front().plan;
  const Plan read = read_plan(Json::parse(write_plan(found), "plan"));
  REQUIRE(read.search->question);
  CHECK(read.search->question->excluded == problem.excluded);
  CHECK(verify_bound(read, problem.profile, problem.cluster).holds());
  Plan other = read;
  other.search->question->excluded.clear();  // three devices take two turns, not three
  CHECK_FALSE(verify_bound(other, problem.profile, problem.cluster).holds());
}

TEST_CASE("what cannot be excluded is refused", "[exclude]") {
  Problem problem = on_nodes(1);
  problem.excluded = {8};
  CHECK_THROWS_WITH(search_exact(problem, {}),
                    ContainsSubstring("device 8 is to be excluded, but the cluster has 8"));
  problem.excluded = {0, 1, 2, 3, 4, 5, 6, 7};
  CHECK_THROWS_WITH(search_exact(problem, {}), ContainsSubstring("all of them are excluded"));
}
