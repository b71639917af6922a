#include <numeric>
#include <set>

#include "planner/search/heuristics/usual_choices.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/cases.hpp"
#include "tests/planner/compared.hpp"
#include "tests/watched.hpp"

#include <algorithm>
#include <filesystem>

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

void compare_with_brute_force(std::uint32_t first, std::uint32_t count, CaseSize size) {
  for (std::uint32_t seed = first; seed < first + count; ++seed) {
    INFO("seed " << seed);
    require_as_good_as_brute_force(random_problem(seed, size));
  }
}

Duration step_of(const Problem& problem) {
  const SearchResult result = search_exact(problem, {});
  return result.plans.empty() ? Duration::max() : result.plans.front().prediction->step;
}

Problem equal_problem(int layers, int devices, int microbatches) {
  return problem_of(
      profile_of(std::vector<LayerCost>(static_cast<std::size_t>(layers), layer_cost(10ms, 20ms))),
      cluster_of({{devices, {}}}), microbatches, {1});
}

/// PipeDream's measured VGG-16, or nothing where it is not there.
std::optional<Profile> vgg16() {
  const std::string file = shared_folder() + "/data/pipedream/vgg16/graph.txt";
  if (!std::filesystem::exists(file)) return {};
  return import_pipedream(read_file(file), file);
}

}  // namespace

TEST_CASE("exact is as good as trying everything", "[exact][seconds]") {
  compare_with_brute_force(0, 150, {4, 4});
}

TEST_CASE("exact is as good as trying everything, again", "[exact]") {
  compare_with_brute_force(1000, is_watched ? 50 : 150, {4, 4});
}

TEST_CASE("exact is as good as trying everything, larger", "[exact]") {
  compare_with_brute_force(100000, is_watched ? 10 : 30, {8, 4});
}

TEST_CASE("exact is as good as trying everything, many", "[.long]") {
  compare_with_brute_force(200000, 20000, {6, 4});
  compare_with_brute_force(300000, 2000, {8, 4});
}

TEST_CASE("replicas of two kinds that take turns: a later one may have fewer microbatches",
          "[exact]") {
  // Five microbatches on three replicas, the last of which has room for one at a time.
  require_as_good_as_brute_force(random_mixed(2'000'078, {6, 4}));
}

TEST_CASE("equal layers divide evenly, in (m + p - 1)(f + b)", "[exact]") {
  Problem problem = equal_problem(8, 4, 16);
  problem.straight = true;
  const SearchResult result = search_exact(problem, {});
  CHECK(result.plans.front().prediction->step == (16 + 4 - 1) * 60ms);
  CHECK(result.proved_optimal);
  for (const Stage& stage : result.plans.front().plan.stages) CHECK(stage.layers.size() == 2);
}

TEST_CASE("nothing gets slower by faster links, more memory or more devices", "[exact]") {
  for (std::uint32_t seed = 0; seed < (is_watched ? 50 : 150); ++seed) {
    Problem problem = random_problem(seed + 5000, {5, 3});
    problem.use_fewer_devices = true;
    const Duration before = step_of(problem);
    INFO("seed " << seed);
    REQUIRE(step_of(with_faster_links(problem)) <= before);
    REQUIRE(step_of(with_twice_the_memory(problem)) <= before);
    Problem larger = problem;
    if (larger.cluster.levels.size() > 1) continue;
    larger.cluster.levels.front().count += 1;
    larger.cluster.devices.push_back(0);
    REQUIRE(step_of(larger) <= before);
  }
}

TEST_CASE("equal questions get equal answers", "[exact]") {
  const Problem problem = random_problem(42, {8, 4});
  const SearchResult first = search_exact(problem, {});
  const SearchResult second = search_exact(problem, {});
  REQUIRE(first.plans.size() == second.plans.size());
  if (!first.plans.empty())
    CHECK(write_plan(first.plans[0].plan) == write_plan(second.plans[0].plan));
  CHECK(first.candidates == second.candidates);
}

TEST_CASE("as many plans as asked for, best first, all different", "[exact]") {
  const Problem problem = equal_problem(6, 3, 4);
  SearchControl control;
  control.top = 5;
  const SearchResult exact = search_exact(problem, control);
  const SearchResult every = search_brute_force(problem, control);
  REQUIRE(exact.plans.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    if (i > 0) CHECK_FALSE(exact.plans[i].plan.stages == exact.plans[i - 1].plan.stages);
    if (i > 0) CHECK(exact.plans[i - 1].prediction->step <= exact.plans[i].prediction->step);
  }
  CHECK(exact.plans[0].prediction->step == every.plans[0].prediction->step);
}

TEST_CASE("as many plans as asked for are the best there are, not only the first of them",
          "[exact]") {
  const auto paces = [](const SearchResult& result) {
    std::vector<Duration> all;
    for (const Candidate& plan : result.plans) all.push_back(pace(*plan.prediction));
    return all;
  };
  int several = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Problem problem = random_problem(seed, {5, 3});
    problem.recompute = {Recompute::none};  // of each partition one way to recompute is looked at
    const SearchControl control{.top = 6, .explain = false};
    const std::vector<Duration> found = paces(search_exact(problem, control));
    CHECK(found == paces(search_brute_force(problem, control)));
    several += found.size() > 1 ? 1 : 0;
  }
  CHECK(several >= 20);
}

TEST_CASE("no two of the plans differ only in the order of replicas or layers", "[exact]") {
  // Layers by index and devices of every stage, ascending, and all else that a plan says.
  const auto said = [](Plan plan) {
    std::vector<std::set<int>> layers;
    for (Stage& stage : plan.stages) {
      std::sort(stage.devices.begin(), stage.devices.end());
      for (int place = stage.layers.first; place < stage.layers.end; ++place) {
        layers.resize(static_cast<std::size_t>(&stage - plan.stages.data()) + 1);
        layers.back().insert(plan.order.empty() ? place
                                                : plan.order[static_cast<std::size_t>(place)]);
      }
    }
    plan.order.clear();
    plan.search.reset();
    return std::pair(write_plan(plan), layers);
  };
  int several = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Problem problem = seed % 2 == 0 ? random_mixed(seed, {4, 3}) : random_branching(seed, {5, 3});
    if (seed % 4 == 2) problem.recompute_layers = {Recomputed::full};
    const SearchResult found = search_exact(problem, {.top = 6, .explain = false});
    std::set<std::pair<std::string, std::vector<std::set<int>>>> known;
    for (const Candidate& plan : found.plans) CHECK(known.insert(said(plan.plan)).second);
    several += found.plans.size() > 1 ? 1 : 0;
  }
  CHECK(several >= 15);
}

TEST_CASE("a search that is stopped gives what it has, and an honest gap", "[exact]") {
  std::stop_source source;
  source.request_stop();
  SearchControl control;
  control.stop = source.get_token();
  Problem problem = equal_problem(12, 4, 8);
  problem.straight = true;
  const SearchResult result = search_exact(problem, control);
  CHECK(result.interrupted);
  CHECK_FALSE(result.proved_optimal);
  CHECK_FALSE(result.infeasible);
}

TEST_CASE("a gap that is good enough ends the search", "[exact]") {
  SearchControl control;
  control.gap = 0.5;
  const SearchResult result = search_exact(random_problem(42, {8, 4}), control);
  CHECK(result.gap <= 0.5);
}

TEST_CASE("fixed stages, layers per stage and stage limits are kept", "[exact]") {
  Problem problem = equal_problem(8, 4, 8);
  problem.straight = true;
  problem.fixed = {{0, {0, 3}}};
  CHECK(search_exact(problem, {}).plans.front().plan.stages[0].layers == LayerRange{0, 3});
  problem.fixed.clear();
  problem.max_stages = 2;
  CHECK(search_exact(problem, {}).plans.front().plan.stages.size() <= 2);
  problem.max_stages.reset();
  problem.min_layers_per_stage = 3;
  const SearchResult result = search_exact(problem, {});
  for (const Stage& stage : result.plans.front().plan.stages) {
    CHECK(stage.layers.size() >= 3);
  }
}

TEST_CASE("if nothing fits, the reason has numbers and the remedies work", "[exact]") {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.parameters = cost.gradients = 1 << 20;
  cost.optimizer = 2 << 20;
  cost.saved = 1 << 20;
  cost.output = 1 << 10;
  Profile profile = profile_of(std::vector<LayerCost>(4, cost), 2);
  // Two layers per device are 8 MiB, and 2 MiB more while one recomputes.
  profile.entries.push_back(profile.entries.front());
  profile.entries.back().setting.microbatch = 1;
  for (LayerCost& half : profile.entries.back().layers) half.saved /= 2;
  Problem problem = problem_of(profile, cluster_of({{4, {}}}, Bytes{78} << 17), 4, {2});
  problem.devices = 2;
  problem.straight = true;
  const SearchResult result = search_exact(problem, {});
  REQUIRE(result.infeasible);
  CHECK_THAT(result.infeasible->reason,
             ContainsSubstring("nothing fits: stage ") && ContainsSubstring("MiB of 9.75MiB"));
  CHECK(result.infeasible->short_by > 0);
  CHECK(result.infeasible->short_by < 4 << 20);
  const auto& remedies = result.infeasible->remedies;
  const auto has = [&](const std::string& remedy) {
    return std::find(remedies.begin(), remedies.end(), remedy) != remedies.end();
  };
  CHECK(has("--devices 4 (now 2)"));
  Problem larger = problem;
  larger.devices = 4;
  CHECK(search_exact(larger, {}).plans.size() == 1);
  CHECK(has("--microbatch 1 (now 2)"));
  Problem smaller = problem;
  smaller.microbatches = {1};
  CHECK(search_exact(smaller, {}).plans.size() == 1);
  CHECK(has("--optimizer sgd"));
}

TEST_CASE("a shape that no schedule takes is a reason, too", "[exact]") {
  Problem problem = equal_problem(1, 1, 1);
  problem.schedules = {{.name = "interleaved", .virtual_stages = 2}};
  const SearchResult result = search_exact(problem, {});
  REQUIRE(result.infeasible);
  CHECK_THAT(result.infeasible->reason, ContainsSubstring("1 layers are fewer than the 2"));
}

TEST_CASE("a slow replica need not have sent the slowest message", "[exact]") {
  // Two kinds of device in one stage, on unlike links: the faster one's message takes longer.
  require_as_good_as_brute_force(random_mixed(2'001'273, {.layers = 6, .devices = 4}));
}

TEST_CASE("a microbatch must divide the batch", "[exact]") {
  CHECK_THROWS_AS(
      search_exact(problem_of(profile_of({layer_cost(1ms, 1ms)}), cluster_of({{1, {}}}), 3, {2}),
                   {}),
      Error);
}

TEST_CASE("PipeDream's VGG-16 is planned to proven optimality", "[exact]") {
  const auto profile = vgg16();
  if (!profile) SKIP("PipeDream's profiles are not here");
  const std::string cluster =
      GENERATE("4xgeneric@1GB/s", "16xgeneric@1GB/s", "4x4xgeneric@1GB/s,10GB/s");
  Problem problem = problem_of(*profile, parse_cluster(cluster), 8, {1});
  const SearchResult result = search_exact(problem, {});
  REQUIRE(result.plans.size() == 1);
  CHECK(result.proved_optimal);
  const Duration step = result.plans.front().prediction->step;
  for (const Candidate& usual : usual_choices(problem)) {
    if (!usual.prediction || !usual.prediction->fits) continue;
    INFO(usual.name);
    CHECK(step <= usual.prediction->step);
  }
}
