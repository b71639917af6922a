// Layers that choose for themselves what they do again: against all choices there are.

#include "planner/search/heuristics/layers_again.hpp"
#include "planner/search/layers_search.hpp"

#include <array>

#include "planner/analysis/certificate.hpp"
#include "planner/costs/stage_recompute.hpp"
#include "planner/plan/plan_fault.hpp"
#include "planner/relaxations/work_bound.hpp"
#include "planner/search/column_work.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/planner/compared.hpp"
#include "tests/planner/random_layouts.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t some_seeds = 60;

Problem layered_problem(std::uint32_t seed, CaseSize size) {
  Problem problem = random_problem(seed, size);
  Random random(seed);
  problem.recompute_layers = {Recomputed::selective, Recomputed::full};
  if (random.chance(20)) problem.recompute_layers = {Recomputed::selective};
  if (random.chance(20)) problem.recompute_layers = {Recomputed::full};
  return problem;
}

/// Every device has so much of what the fullest one holds now.
void limit_memory(Problem& problem, const Prediction& prediction, int percent) {
  Bytes most = 0;
  for (const MemoryPeak& peak : prediction.peaks) most = std::max(most, peak.bytes);
  for (DeviceKind& kind : problem.cluster.kinds) {
    kind.memory_unlimited = false;
    kind.memory = most * percent / 100;
  }
}

/// The fastest of all ways to recompute in these stages that fit; nothing if none does.
class AllWays {
 public:
  AllWays(const Space& space, Plan plan) : space_(space), plan_(std::move(plan)) {
    may_ = space.problem().recompute_layers;
    may_.push_back(Recomputed::none);
  }

  std::optional<Duration> fastest() {
    choose_stage(0);
    return fastest_;
  }

 private:
  void choose_stage(std::size_t s) {
    if (s == plan_.stages.size()) return evaluate();
    Stage& stage = plan_.stages[s];
    if (space_.allows(Recompute::full)) {
      stage.again.clear();
      stage.recompute = Recompute::full;
      choose_stage(s + 1);
    }
    stage.recompute = Recompute::none;
    stage.again.assign(static_cast<std::size_t>(stage.layers.size()), Recomputed::none);
    choose_layer(s, 0);
  }

  void choose_layer(std::size_t s, std::size_t layer) {
    if (layer == plan_.stages[s].again.size()) return choose_stage(s + 1);
    for (const Recomputed what : may_) {
      plan_.stages[s].again[layer] = what;
      choose_layer(s, layer + 1);
    }
  }

  void evaluate() {
    const Candidate candidate = space_.evaluate("", plan_);
    REQUIRE(candidate.prediction);
    if (!candidate.prediction->fits) return;
    const Duration step = candidate.prediction->step;
    fastest_ = std::min(step, fastest_.value_or(step));
  }

  const Space& space_;
  Plan plan_;
  std::vector<Recomputed> may_;
  std::optional<Duration> fastest_;
};

/// Equal layers on `stages` devices; one microbatch saves `saved` of a layer.
Problem equal_problem(int stages, int layers_each, Bytes memory) {
  LayerCost cost = layer_cost(4ms, 8ms);
  cost.saved = 100;
  cost.output = 10;
  cost.selective = {.again = 1ms, .saved = 60};
  Problem problem = problem_of(
      profile_of(std::vector<LayerCost>(static_cast<std::size_t>(stages * layers_each), cost)),
      cluster_of({{stages, {}}}, memory), 8, {1});
  problem.straight = true;
  problem.use_fewer_devices = false;
  problem.recompute_layers = {Recomputed::selective, Recomputed::full};
  return problem;
}

/// One pipeline of two to four devices, whose layers cost what they like or are alike and keep
/// nothing but what microbatches leave.
Problem column_problem(Random& random, const std::string& schedule, bool differ) {
  const int depth = random.between(2, 4), microbatches = depth * random.between(1, 8);
  const int turns = schedule == "looped-bfs" || schedule == "interleaved" ? 2 : 1;
  const int stages = depth * turns;
  LayerCost block = layer_cost(20us, 40us);
  block.saved = 4000;
  block.selective = {.again = random.between(1, 20) * 1us, .saved = 1500};
  std::vector<LayerCost> costs(
      static_cast<std::size_t>(differ ? random.between(stages, 10) : stages * random.between(1, 3)),
      block);
  for (LayerCost& cost : costs) cost = differ ? random_cost(random) : cost;
  Problem problem = problem_of(profile_of(std::move(costs)),
                               cluster_of({{depth, random_link(random)}}), microbatches, {1});
  problem.schedules = {{.name = schedule, .virtual_stages = turns}};
  problem.straight = true;
  problem.use_fewer_devices = false;
  problem.max_stages = stages;
  if (random.chance(30)) problem.recompute = {Recompute::none};
  problem.recompute_layers = {Recomputed::selective};
  if (random.chance(60)) problem.recompute_layers.push_back(Recomputed::full);
  return problem;
}

/// Some layers, often all of them, do again what they may; stages of equal length if layers are
/// alike.
Layout random_choice(Random& random, const Space& space, const Setting& column, bool differ) {
  const auto depth = static_cast<std::size_t>(*column.depth);
  const int stages = *column.depth * column.schedule.virtual_stages;
  Layout layout{.replicas = std::vector<int>(depth, 1),
                .cuts = random_cuts(random, space.layers(), stages),
                .recompute = std::vector(static_cast<std::size_t>(stages), Recompute::none)};
  for (int s = 0; s <= stages && !differ; ++s)
    layout.cuts[static_cast<std::size_t>(s)] = s * (space.layers() / stages);
  const std::vector<Recomputed>& may = space.problem().recompute_layers;
  const int percent = random.chance(40) ? 100 : random.between(0, 100);
  for (std::size_t s = 0; s < static_cast<std::size_t>(stages); ++s) {
    std::vector<Recomputed>& again = layout.again.emplace_back();
    for (int layer = layout.cuts[s]; layer < layout.cuts[s + 1]; ++layer) {
      const int what = random.between(0, static_cast<int>(may.size()) - 1);
      again.push_back(random.chance(percent) ? may[static_cast<std::size_t>(what)]
                                             : Recomputed::none);
    }
  }
  return layout;
}

}  // namespace

TEST_CASE("of given stages the layers that recompute are the best of all choices", "[layers]") {
  int chosen = 0;
  for (std::uint32_t seed = 0; seed < some_seeds; ++seed) {
    Problem problem = layered_problem(seed + 50'000, {4, 2});
    const SearchResult found = search_exact(without_memory_limits(problem), {.explain = false});
    if (found.plans.empty()) continue;
    limit_memory(problem, *found.plans.front().prediction, Random(seed).between(40, 100));
    const Space space(problem);
    INFO("seed " << seed << "\n" << write_plan(found.plans.front().plan));
    const auto ours = with_layers_again(space, found.plans.front());
    const auto best = AllWays(space, found.plans.front().plan).fastest();
    REQUIRE(ours.has_value() == best.has_value());
    if (!ours) continue;
    REQUIRE(ours->prediction->fits);
    // Of several stages on a device the sum is least, which says little about the step.
    const bool one_each = ours->plan.schedule.virtual_stages == 1;
    REQUIRE((one_each ? ours->prediction->step == *best : ours->prediction->step >= *best));
    for (const Stage& stage : ours->plan.stages) chosen += recompute_in_words(stage) != "none";
  }
  CHECK(chosen > static_cast<int>(some_seeds) / 4);
}

TEST_CASE("a search with layers that choose is bounded from below, and no worse than without",
          "[layers]") {
  int better = 0;
  for (std::uint32_t seed = 0; seed < some_seeds / 5; ++seed) {
    const Problem problem = layered_problem(seed + 70'000, {4, 2});
    INFO("seed " << seed);
    const SearchResult found = search_exact(problem, {.explain = false});
    Problem whole = problem;
    whole.recompute_layers.clear();
    const SearchResult stages = search_exact(whole, {.explain = false});
    const SearchResult every = search_brute_force(problem, {});
    REQUIRE((found.plans.empty() || !every.plans.empty()));
    if (every.plans.empty()) continue;
    REQUIRE(found.lower_bound <= pace(*every.plans.front().prediction));
    if (found.plans.empty()) continue;
    const Candidate& best = found.plans.front();
    if (!best.plan.search->question) continue;  // another planner's, which nobody else looks at
    REQUIRE(pace(*best.prediction) >= pace(*every.plans.front().prediction));
    if (found.proved_optimal) {
      REQUIRE(pace(*best.prediction) == pace(*every.plans.front().prediction));
    }
    if (!stages.plans.empty()) {
      REQUIRE(pace(*best.prediction) <= pace(*stages.plans.front().prediction));
    }
    better +=
        stages.plans.empty() || pace(*best.prediction) < pace(*stages.plans.front().prediction);
    REQUIRE(verify_bound(best.plan, problem.profile, problem.cluster).fault.empty());
  }
  CHECK(better > 0);
}

TEST_CASE("no plan is below the bound of layers that choose, which counts what it takes to fit",
          "[layers]") {
  constexpr std::array schedules{"1f1b", "gpipe", "zb-h1", "zb-h2", "looped-bfs", "interleaved"};
  const std::uint32_t count = is_watched ? 40 : 1000;
  std::uint32_t tried = 0, raised = 0, proved = 0, best = 0, verified = 0, listed = 0;
  for (std::uint32_t seed = 0; seed < count; ++seed) {
    INFO("seed " << seed);
    Problem problem = layered_problem(seed + 90'000, {4, 3});
    const std::string name = schedules[seed % schedules.size()];
    problem.schedules = {
        {.name = name, .virtual_stages = name.back() == 'd' || name[0] == 'l' ? 2 : 1}};
    problem.straight = seed % 4 != 0;
    const SearchResult unlimited = search_exact(without_memory_limits(problem), {.explain = false});
    if (unlimited.plans.empty()) continue;
    limit_memory(problem, *unlimited.plans.front().prediction, Random(seed).between(50, 95));
    const SearchResult every = search_brute_force(problem, {.explain = false});
    const SearchResult found = search_layers(problem, {.explain = false}, 0);
    if (every.plans.empty()) {
      REQUIRE((found.plans.empty() || !is_searched(problem, found.plans.front().plan)));
      continue;
    }
    ++tried;
    const Duration least = pace(*every.plans.front().prediction);
    REQUIRE(std::min(found.lower_bound, found.families.least_left_out()) <= least);
    if (problem.straight) REQUIRE(found.lower_bound <= least);
    if (seed % 4 == 0 && count_plans(problem) <= few_plans) {
      const SearchResult all = search_exact(problem, {.explain = false});
      REQUIRE(pace(*all.plans.front().prediction) <= least);
      REQUIRE(all.proved_optimal == is_searched(problem, all.plans.front().plan));
      ++listed;
    }
    raised += found.lower_bound > unlimited.lower_bound ? 1 : 0;
    if (found.plans.empty()) continue;
    const Candidate& plan = found.plans.front();
    REQUIRE(found.lower_bound <= pace(*plan.prediction));
    if (!is_searched(problem, plan.plan)) continue;
    REQUIRE(pace(*plan.prediction) >= least);
    best += pace(*plan.prediction) == least ? 1 : 0;
    proved += found.proved_optimal ? 1 : 0;
    if (verified >= (is_watched ? 5 : 200)) continue;
    ++verified;
    REQUIRE(verify_bound(plan.plan, problem.profile, problem.cluster).fault.empty());
  }
  CAPTURE(tried, raised, proved, best, verified, listed);
  CHECK(raised * 10 > tried * 3);
  CHECK(listed * 20 > tried);
  CHECK(best * 10 > tried * 9);
}

TEST_CASE("a column's bounds hold for any choice of its layers that just fits", "[layers]") {
  constexpr std::array schedules{"1f1b", "gpipe", "zb-h1", "looped-bfs", "interleaved"};
  const std::uint32_t count = is_watched ? 200 : 10'000;
  std::uint32_t tried = 0, by_memory = 0, by_paths = 0;
  for (std::uint32_t seed = 0; seed < count; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    // Else they are alike, and what microbatches leave is all there is.
    const bool differ = random.chance(50);
    Problem problem = column_problem(random, schedules[seed % schedules.size()], differ);
    const Space unlimited(problem);
    const std::vector<Setting> columns = unlimited.columns(unlimited.settings().front());
    REQUIRE(columns.size() == 1);
    const Setting& column = columns.front();
    const Candidate plan = unlimited.evaluate(
        "", unlimited.plan(column, random_choice(random, unlimited, column, differ)));
    REQUIRE(plan.prediction);
    limit_memory(problem, *plan.prediction, 100);
    const Space space(problem);
    REQUIRE(space.evaluate("", plan.plan).prediction->fits);
    const Time step = plan.prediction->step.count();
    ColumnBranch branch;
    branch.setting = column;
    branch.least = ColumnBounds(space).bound(column);
    REQUIRE(branch.least <= step);
    by_memory += branch.least > ColumnBounds(unlimited).bound(column) ? 1 : 0;
    const Time before = branch.least;
    ColumnWork(space, {}, branch, 2 * step).raise(30);
    REQUIRE(branch.least <= step);
    by_paths += branch.least > before ? 1 : 0;
    ++tried;
  }
  CAPTURE(tried, by_memory, by_paths);
  if (!is_watched) CHECK(by_memory * 200 > tried);
  CHECK(by_paths * 2 > tried);
}

TEST_CASE("a search that is stopped fits no layers, and has its first plan of whole stages",
          "[layers]") {
  const Problem problem = equal_problem(2, 3, 2 * 280 + 40 + 20);
  std::stop_source stop;
  stop.request_stop();
  const SearchResult unlimited = search_exact(without_memory_limits(problem), {.explain = false});
  REQUIRE_FALSE(unlimited.plans.empty());
  const Space space(problem);
  CHECK(with_layers_again(space, unlimited.plans.front()));
  CHECK_FALSE(with_layers_again(space, unlimited.plans.front(), stop.get_token()));
  const SearchResult found = search_exact(problem, {.stop = stop.get_token(), .explain = false});
  CHECK(found.interrupted);
  REQUIRE_FALSE(found.plans.empty());
  CHECK(found.plans.front().prediction->fits);
  for (const Stage& stage : found.plans.front().plan.stages) CHECK(stage.again.empty());
}

TEST_CASE("just as many layers recompute as it takes", "[layers]") {
  // Stage 0 holds two microbatches: each 3 x 100 and the two inner inputs of 10; with them live the
  // gradient of its output, and the next.
  const auto words = [](Bytes memory) {
    const SearchResult found = search_exact(equal_problem(2, 3, memory), {.explain = false});
    return found.plans.empty() ? "" : recompute_in_words(found.plans.front().plan.stages.front());
  };
  CHECK(words(2 * 320 + 20) == "none");
  // One layer's attention again leaves 260, and 40 to rebuild.
  CHECK(words(2 * 280 + 40 + 20) == "1 of 3 layers selective");
  CHECK(words(2 * 240 + 40 + 20) == "2 of 3 layers selective");
  CHECK(words(2 * 200 + 40 + 20) == "selective");
  // Nothing of a layer is kept, and one is rebuilt at a time.
  CHECK(words(2 * 20 + 100 + 20) == "3 of 3 layers");
  CHECK(words(2 * 20 + 100 + 9) == "");
}
