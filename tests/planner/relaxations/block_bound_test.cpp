#include "planner/relaxations/block_bound.hpp"

#include "planner/layouts/layouts.hpp"
#include "planner/relaxations/path_bound.hpp"
#include "tests/catch.hpp"
#include "tests/planner/columns_cases.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

constexpr std::int64_t much = 100'000'000;

/// Of all layouts that fit.
Time least_step(const Space& space, const Setting& setting, FastClock& clock) {
  Time best = never;
  for_each_layout(space, setting, [&](const Layout& layout) {
    if (may_fit(clock, layout)) best = std::min(best, clock.step(layout));
  });
  return best;
}

struct Proof {
  bool is_done = false;
  Time bound = 0;
  Time found = never;  ///< the fastest layout that came up
};

Proof prove_within(const Space& space, const Setting& setting, FastClock& clock,
                   const TimedOrder& order, Time limit) {
  const BlockPacking packing(space, setting, order, limit);
  Proof proof;
  BlockBound bound(space, setting, order, packing, [&](const Layout& layout) {
    proof.found = std::min(proof.found, clock.step(layout));
    return true;
  });
  REQUIRE(bound.knows_choices());
  proof.is_done = bound.prove(much);
  proof.bound = bound.bound();
  return proof;
}

/// As many devices as it has, each with two or three stages, and enough blocks to choose from.
Problem in_turns(std::uint32_t seed, int most_blocks = 12) {
  Random random(seed);
  const auto cost = [&](int most) {
    const Duration forward{random.between(1, most)}, backward{random.between(1, 2 * most)};
    return layer_cost(forward, backward);
  };
  const int devices = random.between(2, 4), turns = random.between(2, 3);
  const std::int64_t rounds = random.between(1, 3);
  const auto blocks = static_cast<std::size_t>(random.between(devices * turns, most_blocks));
  std::vector<LayerCost> costs(blocks + 2, cost(20));
  costs.front() = cost(20);
  costs.back() = cost(40);
  const char* schedule = random.between(0, 1) == 0 ? "interleaved-zb" : "interleaved";
  Problem problem =
      problem_of(profile_of(costs), cluster_of({{devices, {}}}), devices * rounds, {1}, {schedule});
  problem.schedules.front().virtual_stages = turns;
  problem.recompute = {Recompute::none};
  problem.straight = true;
  problem.use_fewer_devices = false;
  return problem;
}

template <class Visit>
void for_each_case(const Visit& visit) {
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    INFO("seed " << seed);
    const Problem problem = with_blocks(seed, 9);
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock& clock, const TimedOrder& order) {
      const Time best = least_step(space, setting, clock);
      if (best < never) visit(space, setting, clock, order, best);
    });
  }
}

}  // namespace

TEST_CASE("no layout that fits is faster than the bound by whole blocks",
          "[block_bound][seconds]") {
  int cases = 0, higher = 0, lower = 0, closed = 0;
  for_each_case([&](const Space& space, const Setting& setting, FastClock& clock,
                    const TimedOrder& order, Time best) {
    const Time limit = best + best / 4;
    const BlockPacking packing(space, setting, order, limit);
    BlockBound whole(space, setting, order, packing, [&](const Layout& layout) {
      CHECK(may_fit(clock, layout));
      return true;
    });
    if (!whole.knows_choices()) return;
    whole.raise(40);
    CHECK(whole.bound() <= best);
    PathBound parts(space, setting, order, limit);
    parts.raise(40, best, [](const Layout&) { return true; });
    ++cases;
    closed += whole.bound() >= best - best / 100 ? 1 : 0;
    higher += whole.bound() > parts.bound() + best / 100 ? 1 : 0;
    lower += whole.bound() < parts.bound() - best / 100 ? 1 : 0;
  });
  CHECK(cases > 200);
  CHECK(closed > cases / 2);
  CHECK(higher > 2 * lower);
}

TEST_CASE("weights see all paths of deep pipelines, not those of few layouts", "[block_bound]") {
  double all = 0;
  int cases = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    INFO("seed " << seed);
    const Problem problem = in_turns(seed, 60);
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock& clock, const TimedOrder& order) {
      const std::vector<int> replicas(static_cast<std::size_t>(*setting.depth), 1);
      Effort effort{.left = 2'000'000, .stop = {}};
      const Layout good =
          improve(clock, space, setting, balanced(space, setting, replicas), effort);
      const Time step = clock.step(good);
      const BlockPacking packing(space, setting, order, step);
      BlockBound bound(space, setting, order, packing, [](const Layout&) { return true; });
      if (!bound.knows_choices()) return;
      bound.raise(200);
      CHECK(bound.bound() <= step + 1);
      all += static_cast<double>(std::min(bound.bound(), step)) / static_cast<double>(step);
      ++cases;
    });
  }
  CHECK(cases >= 40);
  // The paths of layouts that come up, alone, get to 0.93.
  CHECK(all / cases > 0.95);
}

TEST_CASE("of blocks the best is found, and it is proved that nothing is below it",
          "[block_bound][seconds]") {
  int cases = 0, hard = 0, found = 0;
  for_each_case([&](const Space& space, const Setting& setting, FastClock& clock,
                    const TimedOrder& order, Time best) {
    ++cases;
    for (const Time limit : {best, best + best / 10}) {
      const Proof proof = prove_within(space, setting, clock, order, limit);
      CHECK(proof.is_done);
      CHECK(proof.bound == best);
      found += proof.found == best ? 1 : 0;
    }
    const BlockPacking less(space, setting, order, best - 1);
    if (less.bound() >= best) return;
    BlockBound out(space, setting, order, less, [](const Layout&) { return true; });
    REQUIRE(out.knows_choices());
    out.raise(40);
    if (out.bound() >= best) return;
    ++hard;
    CHECK(out.prove(much));
    CHECK(out.bound() == best);
  });
  CHECK(cases > 200);
  CHECK(hard > 10);
  CHECK(found == 2 * cases);
}

TEST_CASE("where devices have their blocks in several turns it takes cases to prove the best",
          "[block_bound][seconds]") {
  int cases = 0;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    const Problem problem = in_turns(seed);
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock& clock, const TimedOrder& order) {
      if (*setting.depth != problem.cluster.levels.front().count) return;
      const Time best = least_step(space, setting, clock);
      const Proof proof = prove_within(space, setting, clock, order, best);
      CHECK(proof.is_done);
      CHECK(proof.found == best);
      ++cases;
      const BlockPacking less(space, setting, order, best - 1);
      if (less.bound() >= best) return;
      BlockBound out(space, setting, order, less, [](const Layout&) { return true; });
      CHECK(out.prove(much));
    });
  }
  CHECK(cases > 140);
}

TEST_CASE("cases of a proof, each by a bound of its own, know together what the proof does",
          "[block_bound][seconds]") {
  constexpr std::int64_t little = 1'000'000;  // so that walks are short
  int divided = 0, parts = 0;
  for (std::uint32_t seed = 0; seed < (is_watched ? 200 : 600); ++seed) {
    INFO("seed " << seed);
    const Problem problem = in_turns(seed, 14);
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock& clock, const TimedOrder& order) {
      if (*setting.depth != problem.cluster.levels.front().count) return;
      const Time best = least_step(space, setting, clock);
      const BlockPacking packing(space, setting, order, best + best / 10);
      Time found = never;
      const auto visit = [&](const Layout& layout) {
        found = std::min(found, clock.step(layout));
        return true;
      };
      BlockBound whole(space, setting, order, packing, visit);
      const auto cases = whole.begin_proof(little);
      if (!cases) return;
      if (cases->empty()) {
        CHECK(whole.bound() == best);
        return;
      }
      ++divided;
      Time least = whole.least_found();
      for (const BlockBound::Case& own : *cases) {
        BlockBound part(space, setting, order, packing, visit);
        part.know(whole.useful_paths());
        CHECK(part.prove_case(own, much));
        CHECK(part.bound() >= best);
        least = std::min(least, part.bound());
        ++parts;
      }
      CHECK(least == best);
      CHECK(found == best);
    });
  }
  CHECK(divided > (is_watched ? 3 : 10));
  CHECK(parts > 3 * divided);
}

TEST_CASE("what walks learn on the way leaves the best", "[block_bound][minutes]") {
  constexpr int most_blocks = 19;
  int cases = 0;
  for (std::uint32_t seed = 0; cases < (is_watched ? 3 : 10); ++seed) {
    INFO("seed " << seed);
    const Problem problem = in_turns(seed, most_blocks);
    if (problem.profile.model.layers.size() < most_blocks) continue;
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock& clock, const TimedOrder& order) {
      if (*setting.depth < 4 || setting.schedule.virtual_stages < 3) return;
      ++cases;
      const Time best = least_step(space, setting, clock);
      const Proof proof = prove_within(space, setting, clock, order, best + best / 5);
      CHECK(proof.is_done);
      CHECK(proof.found == best);
      CHECK(proof.bound == best);
    });
  }
}

TEST_CASE("a small proof is done with soon, whether or not layouts count",
          "[block_bound][seconds]") {
  int cases = 0;
  for_each_case([&](const Space& space, const Setting& setting, FastClock&, const TimedOrder& order,
                    Time best) {
    const BlockPacking packing(space, setting, order, best + best / 10);
    for (const bool counts : {true, false}) {
      BlockBound bound(space, setting, order, packing, [&](const Layout&) { return counts; });
      CHECK(bound.prove(much));
      CHECK(bound.spent() < much / 10);
    }
    ++cases;
  });
  CHECK(cases > 200);
}

TEST_CASE("a proof ends when its effort is spent, or a stop is requested",
          "[block_bound][seconds]") {
  int spent = 0, requested = 0;
  for_each_case([&](const Space& space, const Setting& setting, FastClock&, const TimedOrder& order,
                    Time best) {
    const BlockPacking less(space, setting, order, best - 1);
    if (less.bound() >= best) return;
    BlockBound bound(space, setting, order, less, [](const Layout&) { return true; });
    bound.raise(1);
    spent += bound.prove(-1) ? 0 : 1;
    CHECK(bound.bound() <= best);
    std::stop_source stop;
    stop.request_stop();
    BlockBound stopped(space, setting, order, less, [](const Layout&) { return true; });
    stopped.raise(1);
    requested += stopped.prove(much, stop.get_token()) ? 0 : 1;
    CHECK(stopped.bound() <= best);
  });
  CHECK(spent > 5);
  CHECK(requested > 5);
}
