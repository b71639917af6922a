#include "planner/search/column_search.hpp"

#include "planner/costs/columns.hpp"
#include "planner/layouts/layouts.hpp"
#include "planner/search/heuristics/usual_columns.hpp"
#include "planner/strategies.hpp"
#include "tests/catch.hpp"
#include "tests/planner/columns_cases.hpp"
#include "tests/planner/shared_cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// What all plans of columns say about the search among them.
struct Compared {
  int columns = 0, found = 0, tight = 0, timed = 0, exact = 0;

  void compare(const Problem& problem) {
    const Space space(problem);
    const SearchControl control;
    Judge judge(space, control);
    judge.effort().left = 100'000'000;
    SpaceWorkers workers(space, control.threads);
    ColumnSearch search(space, control, judge, workers);
    Time least_of_all = never, best = never;
    for (const Setting& base : space.settings()) {
      search.add(base);
      least_of_all = std::min(least_of_all, search.least_of_all(base));
      for (const Setting& setting : space.columns(base)) {
        columns += setting.columns > 1 ? 1 : 0;
        best = std::min(best, best_of(space, setting));
      }
    }
    search.search([] {});
    const auto answer = judge.board().best();
    if (answer) {
      ++found;
      CHECK(answer->count() >= best);
      tight += answer->count() == best ? 1 : 0;
    }
    CHECK(std::min(search.least(), answer ? answer->count() : never) <= best);
    CHECK(least_of_all <= best);
  }

  /// Of all layouts that fit.
  Time best_of(const Space& space, const Setting& setting) {
    Time best = never;
    FastClock clock(space, setting);
    for_each_layout(space, setting, [&](const Layout& layout) {
      const Candidate candidate = space.evaluate("all", space.plan(setting, layout));
      if (!candidate.prediction) return;
      const Time step = candidate.prediction->step.count();
      CHECK(clock.step(layout) <= step);
      ++timed;
      exact += clock.step(layout) == step ? 1 : 0;
      if (!candidate.prediction->fits) return;
      CHECK(may_fit(clock, layout));
      best = std::min(best, step);
    });
    return best;
  }
};

/// The same as `compare`, but that plans are listed without a word of columns: settings as they
/// are, each stage with as many replicas as the others, in lockstep. All microbatches that
/// copies of a pipeline may have are sizes of their own there.
struct ComparedWithReplicas {
  int found = 0, unlisted = 0, proved = 0;

  void compare(const Problem& problem) {
    const Space space(problem);
    const SearchControl control;
    Judge judge(space, control);
    judge.effort().left = 100'000'000;
    SpaceWorkers workers(space, control.threads);
    ColumnSearch search(space, control, judge, workers);
    for (const Setting& base : space.settings()) search.add(base);
    search.search([] {});
    const auto answer = judge.board().best();
    found += answer ? 1 : 0;
    if (const Candidate* best = judge.board().front()) {
      unlisted += std::ranges::count(problem.microbatches, best->plan.batch.microbatch) == 0;
    }
    const Time best = best_of(problem);
    CHECK(std::min(search.least(), answer ? answer->count() : never) <= best);
    // Where not columns but everything is searched, they are not forgotten.
    const SearchResult all = search_exact(problem, {});
    CHECK_FALSE(all.families.has(PlanFamily::unequal_replicas));
    CHECK(std::min(all.lower_bound.count(), never) <= best);
    if (!all.plans.empty()) proved += all.proved_optimal ? 1 : 0;
  }

  static Time best_of(const Problem& problem) {
    Time best = never;
    for (int replicas = 1; replicas <= device_count(problem.cluster); ++replicas) {
      Problem larger = problem;
      for (const std::int64_t size : problem.microbatches) {
        const std::int64_t all = size * replicas;
        const bool is_new = std::ranges::count(larger.microbatches, all) == 0;
        const bool divides = problem.microbatch_per_copy && problem.global_batch % all == 0;
        if (is_new && divides) add(larger, size, all);
      }
      const Space space(larger);
      for (const Setting& base : space.settings()) {
        if (base.replicas != ReplicaPolicy::split || base.microbatch % replicas != 0) continue;
        if (!has_alike_blocks(space.cluster(), replicas * base.peers)) continue;
        best = std::min(best, best_of(space, base, replicas));
      }
    }
    return best;
  }

  /// A size that was not measured: as often as another one.
  static void add(Problem& problem, std::int64_t known, std::int64_t size) {
    problem.microbatches.push_back(size);
    std::vector<ProfileEntry>& entries = problem.profile.entries;
    for (std::size_t i = 0, measured = entries.size(); i < measured; ++i) {
      if (entries[i].setting.microbatch != known) continue;
      entries.push_back(entries[i]);
      entries.back().setting.microbatch = size;
      for (LayerCost& cost : entries.back().layers) cost.output *= size / known;
    }
  }

  /// Of all layouts that fit and have so many replicas of each stage.
  static Time best_of(const Space& space, const Setting& setting, int replicas) {
    Time best = never;
    for (int depth = 1; depth * replicas <= space.devices(setting); ++depth) {
      Setting deep = setting;
      deep.depth = depth;
      for_each_layout(space, deep, [&](Layout layout) {
        layout.replicas.assign(layout.replicas.size(), replicas);
        if (!is_allowed(space, setting, layout)) return;
        const Candidate candidate = space.evaluate("all", space.plan(setting, layout));
        if (!candidate.prediction || !candidate.prediction->fits) return;
        best = std::min(best, candidate.prediction->step.count());
      });
    }
    return best;
  }
};

/// A stage and layers for it, which some layout may have.
FixedStage any_fixed(std::uint32_t seed, const Problem& problem) {
  Random random(seed);
  const auto layers = static_cast<int>(problem.profile.model.layers.size());
  FixedStage fixed{.stage = random.between(0, std::min(2, layers - 1)), .layers = {}};
  fixed.layers.first = fixed.stage == 0 ? 0 : random.between(fixed.stage, layers - 1);
  fixed.layers.end = random.between(fixed.layers.first + 1, layers);
  return fixed;
}

/// Columns that take turns, against all plans whose replicas are equally many and do so.
struct ComparedInTurns {
  int found = 0, best_found = 0, of_columns = 0;

  void compare(const Problem& problem) {
    const Space space(problem);
    const bool has_limits =
        !std::ranges::all_of(space.cluster().kinds, &DeviceKind::memory_unlimited);
    for (const Setting& base : space.settings()) {
      if (base.replicas == ReplicaPolicy::split || is_chain(base)) continue;
      if (has_limits) {
        compare(space, base);
      } else {
        CHECK(space.columns(base).empty());
      }
    }
  }

  void compare(const Space& space, const Setting& base) {
    const SearchControl control;
    Judge judge(space, control);
    judge.effort().left = 100'000'000;
    SpaceWorkers workers(space, control.threads);
    ColumnSearch search(space, control, judge, workers);
    search.add(base);
    of_columns += static_cast<int>(search.branches());
    search.search([] {});
    Time best = never;
    for (int replicas = 2; replicas <= space.devices(base); ++replicas) {
      if (base.microbatches % replicas != 0) continue;
      if (!has_alike_blocks(space.cluster(), replicas * base.peers)) continue;
      best = std::min(best, ComparedWithReplicas::best_of(space, base, replicas));
    }
    const auto answer = judge.board().best();
    const Time least = std::min(search.least(), answer ? answer->count() : never);
    CHECK(least <= best);
    if (!answer) return;
    CHECK(judge.board().front()->plan.replicas == ReplicaPolicy::round_robin);
    CHECK(answer->count() >= best);
    ++found;
    best_found += answer->count() == best && least == best ? 1 : 0;
  }
};

}  // namespace

TEST_CASE("what is proved to a hundredth is within a gap of one per cent, at any step") {
  constexpr Time longest = 1'000'000'000'000;
  for (Time step = 100; step < longest; step += step / 7 + 1) {
    ColumnBranch branch;
    branch.least = step - step / 50;  // near enough to be next
    const auto limit = branch.next_limit(step - 1);
    REQUIRE(limit);
    // Nothing is left up to the limit: the bound is a nanosecond above it.
    REQUIRE(static_cast<double>(step - (*limit + 1)) <= 0.01 * static_cast<double>(step));
    REQUIRE(*limit < step);
  }
}

TEST_CASE("no plan of columns is faster than the search among them says", "[columns][seconds]") {
  Compared compared;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    compared.compare(problem_with_columns(seed));
  }
  CHECK(compared.columns > 100);
  CHECK(compared.found > 60);
  CHECK(compared.tight > compared.found / 2);
  // A device's sums, updates and collections take turns on both clocks.
  INFO(compared.exact << " of " << compared.timed);
  CHECK(compared.exact > compared.timed * 17 / 20);
}

TEST_CASE("nor is any plan whose stages have equally many replicas in lockstep",
          "[columns][minutes]") {
  ComparedWithReplicas compared;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    Problem problem = problem_with_columns(seed);
    // Costs of single samples only, as a measured profile may have them: nothing can be split.
    if (seed % 3 != 0) {
      for (ProfileEntry& entry : problem.profile.entries) entry.setting.microbatch = 1;
      problem.microbatches = {1};
      problem.microbatch_per_copy = true;
    }
    compared.compare(problem);
  }
  INFO(compared.found << " found, " << compared.unlisted << " of a size that is not listed");
  CHECK(compared.found > 60);
  CHECK(compared.unlisted > 20);
  CHECK(compared.proved > compared.found * 9 / 10);
}

TEST_CASE("straight pipelines are not copied", "[columns]") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    Problem problem = problem_with_columns(seed);
    problem.microbatch_per_copy = seed % 2 == 0;
    problem.straight = true;
    const Space space(problem);
    for (const Setting& base : space.settings()) {
      for (const Setting& column : space.columns(base)) CHECK(column.columns == 1);
    }
  }
}

TEST_CASE("nor where context and expert degrees are to be found", "[columns][seconds]") {
  Compared compared;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    compared.compare(shared_problem(seed));
  }
  INFO(compared.columns << " settings of columns, " << compared.tight << " of " << compared.found
                        << " tight, " << compared.exact << " of " << compared.timed << " exact");
  CHECK(compared.columns > 100);
  CHECK(compared.tight > compared.found / 2);
  CHECK(compared.exact > compared.timed * 17 / 20);
}

TEST_CASE("nor where stages are fixed", "[columns][seconds]") {
  Compared compared;
  for (std::uint32_t seed = 0; seed < 160; ++seed) {
    INFO("seed " << seed);
    Problem problem = seed % 2 == 0 ? with_blocks(seed) : problem_with_columns(seed);
    problem.fixed = {any_fixed(seed, problem)};
    compared.compare(problem);
  }
  INFO(compared.found << " found, " << compared.tight << " tight");
  CHECK(compared.found > 40);
  CHECK(compared.tight > compared.found / 2);
}

TEST_CASE("balanced layouts keep fixed stages wherever any layout can", "[columns]") {
  int kept = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    Problem problem = problem_with_columns(seed);
    problem.fixed = {any_fixed(seed, problem)};
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock&, const TimedOrder&) {
      int layouts = 0;
      for_each_layout(space, setting, [&](const Layout&) { ++layouts; });
      if (layouts == 0) return;
      const std::vector<int> straight(static_cast<std::size_t>(*setting.depth), 1);
      CHECK(is_allowed(space, setting, balanced(space, setting, straight)));
      for (const double tilt : {0.0, 0.6}) {
        CHECK(is_allowed(space, setting, balanced_devices(space, setting, straight, tilt)));
      }
      ++kept;
    });
  }
  CHECK(kept > 100);
}

TEST_CASE("with several stages per device and many layers few devices are searched by columns",
          "[columns]") {
  LayerCost block = layer_cost(10ms, 20ms);
  block.saved = 1'000'000;
  std::vector<LayerCost> layers(26, block);
  layers.front() = layer_cost(1ms, 1ms);
  layers.back() = layer_cost(5ms, 10ms);
  Problem problem =
      problem_of(profile_of(layers, 4), cluster_of({{8, {}}}, 30'000'000), 32, {4}, {"zb-v"});
  problem.schedules.front().virtual_stages = 2;
  const Space space(problem);
  for (const Setting& setting : space.settings()) {
    CHECK(is_wide(space, setting));
    CHECK_FALSE(has_many_devices(space, setting));
  }
  const SearchResult result = search_exact(problem, {});
  REQUIRE_FALSE(result.plans.empty());
  CHECK(result.gap < 0.02);
  CHECK(result.families.scope() == "plans whose stages all have equally many replicas in lockstep");
  problem.schedules = {{.name = "1f1b"}};
  CHECK_FALSE(is_wide(Space(problem), Space(problem).settings().front()));
}

TEST_CASE("where a device has too many stages to list their blocks, paths bound them",
          "[columns]") {
  const LayerCost cost = layer_cost(1ms, 2ms);
  Problem problem =
      problem_of(profile_of(std::vector<LayerCost>(40, cost)),
                 cluster_of({{2, link_of(1us, 1'000'000'000)}}), 8, {1}, {"interleaved"});
  problem.schedules.front().virtual_stages = 16;
  problem.straight = true;
  problem.use_fewer_devices = false;
  const SearchResult result = search_exact(problem, {.effort = 50'000'000});
  REQUIRE_FALSE(result.plans.empty());
  CHECK(result.lower_bound >= 8 * 20 * 3ms);
  CHECK(result.lower_bound <= pace(*result.plans.front().prediction));
}

TEST_CASE("for equal layers the bound of columns is the work of a device", "[columns]") {
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(4, layer_cost(10ns, 20ns)), 4),
                               cluster_of({{8, {}}}), 32, {4}, {"zb-h1"});
  const Space space(problem);
  const SearchControl control;
  Judge judge(space, control);
  SpaceWorkers workers(space, control.threads);
  ColumnSearch search(space, control, judge, workers);
  search.add(space.settings().front());
  // Two devices with two layers each, in four columns: 8 microbatches of a quarter of the samples.
  CHECK(search.least_of_all(space.settings().front()) == 8 * 4 * 30 / 8);
  CHECK(search.least() >= 8 * 4 * 30 / 8);
  CHECK(search.branches() > 4);
}

TEST_CASE("a layout is made to fit by handing layers on", "[columns]") {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.saved = 1000;
  Problem problem =
      problem_of(profile_of(std::vector<LayerCost>(6, cost)), cluster_of({{2, {}}}, 4500), 4, {1});
  problem.straight = true;
  const Space space(problem);
  const Setting setting = space.columns(space.settings().front()).back();
  REQUIRE(*setting.depth == 2);
  FastClock clock(space, setting);
  const Layout even{{1, 1}, {0, 3, 6}, {Recompute::none, Recompute::none}};
  CHECK_FALSE(may_fit(clock, even));
  // Device 0 holds two microbatches, device 1 one.
  const auto fitting = made_to_fit(clock, setting, even);
  REQUIRE(fitting);
  CHECK(fitting->cuts == std::vector<int>{0, 2, 6});
  problem.cluster.kinds.front().memory = 3500;
  const Space smaller(problem);
  FastClock other(smaller, setting);
  CHECK_FALSE(made_to_fit(other, setting, even));
}

TEST_CASE("usual columns to start from fit and take no longer than is worth it", "[columns]") {
  Problem problem;
  problem.profile.model = builtin_model("gpt2-124m");
  problem.cluster = parse_cluster("8x8xv100");
  problem.precision = Precision::float16;
  problem.sequence = problem.profile.model.sequence;
  problem.global_batch = 512;
  problem.microbatches = {1, 2, 4, 8};
  problem.microbatch_per_copy = true;
  problem.schedules = {{.name = "1f1b"}};
  const Space space(problem);
  const std::vector<Candidate> all = usual_columns(space, {}, {});
  REQUIRE(all.size() == 2);
  const auto [fast, slow] = std::minmax({all[0].prediction->step, all[1].prediction->step});
  REQUIRE(fast < slow);
  CHECK(usual_columns(space, {}, Duration::max()).size() == 2);
  const std::vector<Candidate> one = usual_columns(space, {}, slow - Duration{1});
  REQUIRE(one.size() == 1);
  CHECK(one.front().prediction->step == fast);
  CHECK(usual_columns(space, {}, fast / 2).empty());
  for (DeviceKind& kind : problem.cluster.kinds) kind.memory = kind.reserve + 1'000'000;
  CHECK(usual_columns(Space(problem), {}, {}).size() == 2);  // to show that they do not fit
  CHECK(usual_columns(Space(problem), {}, Duration::max()).empty());
}

TEST_CASE("replicas that are equally many and take turns are columns where memory is limited",
          "[columns][seconds]") {
  ComparedInTurns compared;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    Problem problem = problem_with_columns(seed);
    if (problem.schedules.front().name == "1f1b" || problem.schedules.front().name == "gpipe")
      continue;
    problem.global_batch = seed % 2 == 0 ? 8 : 16;
    compared.compare(problem);
  }
  CHECK(compared.of_columns > 100);
  CHECK(compared.found > 50);
  INFO(compared.best_found << " of " << compared.found);
  CHECK(compared.best_found > compared.found * 9 / 10);
}
