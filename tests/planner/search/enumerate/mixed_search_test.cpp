// Stages with tensor-parallel degrees of their own: what is found, and where they can stand.

#include "planner/search/enumerate/mixed_search.hpp"

#include "planner/relaxations/chain_bounds.hpp"
#include "planner/strategies.hpp"
#include "tests/catch.hpp"
#include "tests/planner/mixed_cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Settings of one microbatch and schedule.
std::vector<const Setting*> all_of(const Space& space,
                                   ReplicaPolicy replicas = ReplicaPolicy::split) {
  std::vector<const Setting*> settings;
  for (const Setting& setting : space.settings()) {
    if (setting.replicas == replicas) settings.push_back(&setting);
  }
  return settings;
}

/// What is known of a chain when each of its stages begins, and of the last one behind it: the
/// least that it takes.
Time bound_along(const ChainBounds& bounds, const Plan& plan) {
  Head head = StageBounds::start();
  Time least = 0;
  const auto stages = static_cast<int>(plan.stages.size());
  int device = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const Stage& here = plan.stages[static_cast<std::size_t>(stage)];
    const auto kind =
        std::find_if(bounds.kinds().begin(), bounds.kinds().end(), [&](const StageKind& other) {
          return other.span == std::ssize(here.devices.front()) &&
                 other.replicas == std::ssize(here.devices);
        });
    REQUIRE(kind != bounds.kinds().end());
    const StageBounds& chain = bounds.stage(*kind);
    const int own = ChainBounds::own_device(*kind, device), left = stages - stage;
    const auto choice = chain.choose(here.layers, own, kind->replicas, left);
    REQUIRE(choice);
    least = std::max(least, chain.bound(head, *choice, here.layers, own, kind->replicas, left,
                                        {.round_trip = 0, .tie = 0}));
    device += kind->devices();
    if (left == 1) break;
    const auto next = plan.stages[static_cast<std::size_t>(stage) + 1].devices.size();
    head = bounds.after(head, *choice, kind->replicas, device, static_cast<int>(next),
                        here.layers.end);
  }
  return least;
}

/// Of all chains of several degrees that fit, the times of those that recompute no more than it
/// takes; the least ones first.
std::vector<Duration> all_times(const Space& space) {
  struct Fitting {
    Plan plan;
    Duration time;
  };
  std::vector<Fitting> fitting;
  Everything everything(space);
  everything.on_plan = [&](const Candidate& candidate) {
    if (candidate.prediction->fits)
      fitting.push_back({candidate.plan, pace(*candidate.prediction)});
  };
  everything.best();
  const auto recomputes_less = [](const Plan& a, const Plan& b) {
    Plan other = b;
    bool is_less = false;
    for (std::size_t s = 0; s < a.stages.size() && s < b.stages.size(); ++s) {
      if (a.stages[s].recompute == b.stages[s].recompute) continue;
      if (a.stages[s].recompute == Recompute::full) return false;
      other.stages[s].recompute = Recompute::none;
      is_less = true;
    }
    return is_less && other == a;
  };
  std::vector<Duration> times;
  for (const Fitting& one : fitting) {
    const bool is_needless = std::ranges::any_of(
        fitting, [&](const Fitting& other) { return recomputes_less(other.plan, one.plan); });
    if (!is_needless) times.push_back(one.time);
  }
  std::ranges::sort(times);
  return times;
}

}  // namespace

TEST_CASE("stages with degrees of their own are as good as trying everything", "[mixed][seconds]") {
  int faster = 0, tried = 0;
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    INFO("seed " << seed);
    faster += require_as_good_as_every_degree(with_degrees(seed), tried) ? 1 : 0;
  }
  CHECK(faster > 3);
  CHECK(tried > 2000);
}

TEST_CASE("the best of several degrees are all found, not only the first",
          "[mixed][top][seconds]") {
  constexpr std::size_t top = 6;
  int full = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    const Problem problem = with_degrees(seed);
    const Space space(problem);
    std::vector<Duration> expected = all_times(space);
    expected.resize(std::min(expected.size(), top));
    Leaderboard board(static_cast<int>(top));
    const Duration least =
        search_mixed_degrees(space, {.top = static_cast<int>(top)}, board).bounds.least();
    std::vector<Duration> found;
    for (const Candidate& plan : board.take()) found.push_back(pace(*plan.prediction));
    // It may have seen more of those that recompute needlessly.
    REQUIRE(found.size() >= expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) REQUIRE(found[i] <= expected[i]);
    CHECK(least == (expected.empty() ? Duration::max() : expected.front()));
    full += expected.size() == top ? 1 : 0;
  }
  CHECK(full > 10);
}

TEST_CASE("no bound on chains of several degrees is above the best of them", "[mixed][seconds]") {
  int bounded = 0, closed = 0;
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    INFO("seed " << seed);
    const Problem problem = with_degrees(seed);
    const Space space(problem);
    Everything everything(space);
    for (const ReplicaPolicy policy : {ReplicaPolicy::split, ReplicaPolicy::round_robin}) {
      const std::vector<const Setting*> settings = all_of(space, policy);
      if (!ChainBounds::applies(space, settings)) continue;
      const Duration best = everything.best_of(*settings.front());
      if (best == Duration::max() || best == Duration{0}) continue;
      ++bounded;
      int along = 0;
      ChainBounds bounds(space, settings);
      everything.on_plan = [&](const Candidate& candidate) {
        if (!candidate.prediction->fits) return;
        CHECK(bound_along(bounds, candidate.plan) <= pace(*candidate.prediction).count());
        ++along;
      };
      everything.best_of(*settings.front());
      everything.on_plan = {};
      CHECK(along > 0);
      CHECK(bounds.least() <= best.count());
      CHECK(bounds.probe(best.count()));
      closed += bounds.probe(best.count() * 6 / 10) ? 0 : 1;
    }
  }
  CHECK(bounded > 80);
  CHECK(closed > bounded / 4);
}

TEST_CASE("peers stand in one box, and a stage need not start where a group of its own does",
          "[mixed]") {
  Problem problem = with_degrees(0);
  problem.cluster =
      cluster_of({{2, link_of(1us, 1'000'000'000)}, {4, link_of(0ns, 2'000'000'000)}});
  const Space space(problem);
  REQUIRE(ChainBounds::applies(space, all_of(space)));
  const ChainBounds bounds(space, all_of(space));
  CHECK(bounds.devices() == 8);
  const StageKind pair{.setting = 1, .span = 2, .replicas = 1};
  const StageKind pairs{.setting = 1, .span = 2, .replicas = 2};
  CHECK(bounds.stands(pair, 1));        // [1, 3)
  CHECK_FALSE(bounds.stands(pair, 3));  // on both sides of the boxes
  CHECK(bounds.stands(pairs, 0));
  CHECK_FALSE(bounds.stands(pairs, 1));
  CHECK(bounds.stands(pairs, 2));  // a replica in each box
  CHECK_FALSE(bounds.stands(pairs, 6));
}

TEST_CASE("no chain of several degrees is sought where devices are not alike", "[mixed]") {
  Problem problem = with_degrees(0);
  problem.cluster.overrides = {{.from = 0, .to = 3, .link = link_of(1us, 1'000'000'000)}};
  const Space linked(problem);
  CHECK_FALSE(ChainBounds::applies(linked, all_of(linked)));
  problem.cluster.overrides.clear();
  const Space plain(problem);
  CHECK(ChainBounds::applies(plain, all_of(plain)));
  CHECK_FALSE(ChainBounds::applies(plain, {all_of(plain).front()}));
  problem.excluded = {3};
  const Space smaller(problem);
  CHECK_FALSE(ChainBounds::applies(smaller, all_of(smaller)));
}

TEST_CASE("a probe of several degrees that is to stop tells nothing", "[mixed]") {
  std::stop_source stop;
  stop.request_stop();
  const Problem problem = with_degrees(0);
  const Space space(problem);
  ChainBounds bounds(space, all_of(space));
  CHECK(bounds.probe(0, stop.get_token()));
  for (int stages = 1; stages <= bounds.most_stages(); ++stages) {
    CHECK_FALSE(bounds.is_open(stages));
  }
}
