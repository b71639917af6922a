#include "planner/search/evaluator.hpp"

#include "planner/layouts/layouts.hpp"
#include "tests/catch.hpp"
#include "tests/planner/random_layouts.hpp"

namespace stagecraft {
namespace {

using namespace tests;
using namespace std::chrono_literals;

/// Two stages on each of two devices. The later ones save more, and take less time to do again.
Problem two_stages_per_device(Bytes memory) {
  LayerCost early = layer_cost(5ms, 10ms), late = layer_cost(1ms, 2ms);
  early.saved = 1000;
  late.saved = 3000;
  Problem problem = problem_of(profile_of({early, early, late, late}),
                               cluster_of({{2, {}}}, memory), 4, {1}, {"interleaved"});
  problem.schedules.front().virtual_stages = 2;
  return problem;
}

TEST_CASE("a layout is judged with its own recomputation if that may fit", "[judge]") {
  using enum Recompute;
  Layout nothing{
      .replicas = {1, 1}, .cuts = {0, 1, 2, 3, 4}, .recompute = {none, none, none, none}};
  Layout first = nothing, own = nothing;
  first.recompute = {full, full, none, none};
  own.recompute = {none, none, full, full};
  int judged = 0;
  for (Bytes memory = 1000; memory < 20'000; memory += 100) {
    const Problem problem = two_stages_per_device(memory);
    const Space space(problem);
    const Setting& setting = space.settings().front();
    FastClock clock(space, setting);
    if (may_fit(clock, nothing) || !may_fit(clock, first) || !may_fit(clock, own)) continue;
    CHECK(clock.step(own) < clock.step(first));
    const SearchControl control;
    Judge judge(space, control);
    const std::vector<Bytes> over = judge.consider_once(clock, setting, own);
    if (!over.empty()) continue;
    ++judged;
    CHECK(judge.board().best()->count() == clock.step(own));
  }
  CHECK(judged > 0);
}

TEST_CASE("of the ways to recompute on many devices a few are looked at, and then it gives up",
          "[judge]") {
  // Each of 16 devices, which all hold the same, makes room by any two of its four stages: 6^16
  // ways in all.
  LayerCost layer = layer_cost(5ms, 10ms);
  layer.saved = 1000;
  const std::vector<LayerCost> layers(64, layer);
  Layout layout{.replicas = std::vector<int>(16, 1),
                .cuts = {},
                .recompute = std::vector<Recompute>(64, Recompute::none)};
  for (int cut = 0; cut <= 64; ++cut) layout.cuts.push_back(cut);
  int judged = 0;
  for (Bytes memory = 10'000; memory < 60'000 && judged == 0; memory += 1000) {
    Problem problem =
        problem_of(profile_of(layers), cluster_of({{16, {}}}, memory), 16, {1}, {"looped-bfs"});
    problem.schedules.front().virtual_stages = 4;
    const Space space(problem);
    const Setting& setting = space.settings().front();
    FastClock clock(space, setting);
    const auto fits = [&](int first, int end) {
      Layout some = layout;
      std::fill(some.recompute.begin() + first, some.recompute.begin() + end, Recompute::full);
      return may_fit(clock, some);
    };
    if (!fits(0, 32) || !fits(32, 64) || fits(0, 16)) continue;
    ++judged;
    const SearchControl control;
    Judge judge(space, control);
    judge.effort().left = 10'000'000'000;
    CHECK_FALSE(judge.consider(clock, setting, layout, never));
    CHECK(judge.simulated() + judge.pruned() <= 256);
    // Where one device has no way, nothing is looked at on the others.
    clock.keep_free({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, memory});
    const std::int64_t before = judge.simulated() + judge.pruned();
    CHECK(judge.consider(clock, setting, layout, never));
    CHECK(judge.simulated() + judge.pruned() == before);
  }
  CHECK(judged == 1);
}

TEST_CASE("a judge of a part of the work knows the whole's limit, and hands on what it found",
          "[judge]") {
  const Problem problem = two_stages_per_device(20'000);
  const Space space(problem);
  const Setting& setting = space.settings().front();
  const Layout layout{.replicas = {1, 1},
                      .cuts = {0, 1, 2, 3, 4},
                      .recompute = std::vector<Recompute>(4, Recompute::none)};
  const SearchControl control;
  Judge whole(space, control);
  whole.effort().left = 1'000'000;
  SpaceWorkers workers(space, 2);
  judge_side_by_side(workers, whole, 2, 100'000, [&](const Space& own, Judge& judge, std::size_t) {
    FastClock clock(own, own.settings().front());
    judge.consider(clock, own.settings().front(), layout, never);
  });
  FastClock clock(space, setting);
  REQUIRE(whole.board().best());
  CHECK(whole.board().best()->count() == clock.step(layout));
  CHECK(whole.simulated() == 2);
  CHECK(whole.effort().left < 1'000'000);
  Judge part(whole, space, 100'000);
  CHECK(part.limit() == whole.limit());
  CHECK(part.simulated() == 0);
  part.consider(clock, setting, layout, never);
  CHECK(part.simulated() == 0);
  CHECK(part.pruned() == 1);
}

TEST_CASE("where the clock was too kind, the judge says by how much, and then it is not",
          "[judge][minutes]") {
  // Of many microbatches a short run tells as much.
  const int times = GENERATE(1, 32);
  int kind = 0, shown_soon = 0;
  for (std::uint32_t seed = 0; seed < 2400; ++seed) {
    Random random(seed);
    Problem problem = random_problem(seed, {6, 3});
    problem.global_batch *= times;
    const Space space(problem);
    for (const Setting& setting : space.settings()) {
      FastClock clock(space, setting);
      const std::vector<int> replicas = random_replicas(random, space, setting);
      if (replicas.empty() || clock.order_for(replicas) == nullptr) continue;
      const Layout layout = balanced(space, setting, replicas);
      const Candidate candidate = space.evaluate("", space.plan(setting, layout));
      if (!space.allows(Recompute::none) || !may_fit(clock, layout)) continue;
      REQUIRE(candidate.prediction);
      const SearchControl control;
      Judge judge(space, control);
      const std::vector<Bytes> over = judge.consider_once(clock, setting, layout);
      INFO("seed " << seed);
      REQUIRE(over.empty() == candidate.prediction->fits);
      if (over.empty()) continue;
      ++kind;
      shown_soon += judge.simulated() == 0 ? 1 : 0;
      CHECK(std::ranges::max(over) == shortfall(*candidate.prediction));
      // Nothing fits where all is kept free.
      clock.keep_free(std::vector<Bytes>(over.size(), candidate.prediction->memory_limits.front()));
      CHECK_FALSE(may_fit(clock, layout));
    }
  }
  CHECK(kind > 10);
  CHECK((shown_soon > 0) == (times > 1));
}

}  // namespace
}  // namespace stagecraft
