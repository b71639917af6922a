#include "planner/relaxations/path_walk.hpp"

#include "planner/layouts/layouts.hpp"
#include "tests/catch.hpp"
#include "tests/planner/known_layouts.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("a walk along paths comes to every layout that fits within its limit",
          "[path_walk][seconds]") {
  int cases = 0, within = 0, visited = 0, all = 0;
  for_each_case(200, [&](const Space& space, const Setting& setting, FastClock&,
                         const TimedOrder& order, const std::vector<Known>& known) {
    if (order.places_recompute) return;
    const Time best = least_of(known);
    // Few rounds and many; all layouts, and the best alone.
    for (const int rounds : {1, 40}) {
      for (const Time limit : {best, best + best / 20, best + best / 2}) {
        PathBound bound(space, setting, order, limit);
        bound.raise(rounds, plenty, [](const Layout&) {});
        std::vector<Layout> found;
        PathWalk walk(bound);
        Effort effort{.left = plenty};
        CHECK(walk.walk(limit, effort, [&](const Layout& layout) {
          found.push_back(layout);
          return limit;
        }));
        CHECK(effort.left < plenty);
        for (const Known& one : of_choices(known, space, bound.recompute_choices())) {
          ++all;
          if (one.step > limit) continue;
          ++within;
          CHECK(std::ranges::any_of(
              found, [&](const Layout& layout) { return is_same(layout, one.layout); }));
        }
        visited += static_cast<int>(found.size());
      }
    }
    ++cases;
  });
  CHECK(cases > 200);
  CHECK(within > 5000);
  // Most of the others are ruled out on the way.
  CHECK(visited < within + (all - within) / 4);
}

TEST_CASE("a walk goes on with the limit it is given, and with what it has learned",
          "[path_walk][seconds]") {
  int cases = 0;
  for_each_case(100, [&](const Space& space, const Setting& setting, FastClock&,
                         const TimedOrder& order, const std::vector<Known>& known) {
    if (order.places_recompute) return;
    const Time best = least_of(known), limit = 2 * best;
    PathBound bound(space, setting, order, limit);
    bound.raise(10, plenty, [](const Layout&) {});
    PathWalk walk(bound);
    Effort effort{.left = plenty};
    const auto found = [&](Time most) {
      return least_found(space, setting, most, [&](Time own, const auto& visit) {
        CHECK(walk.walk(own, effort, visit));
      });
    };
    CHECK(found(limit) == best);
    CHECK(found(best) == best);
    CHECK(found(best - 1) == never);
    ++cases;
  });
  CHECK(cases > 100);
}

TEST_CASE("a walk without effort knows nothing, and says so", "[path_walk]") {
  for_each_case(5, [&](const Space& space, const Setting& setting, FastClock&,
                       const TimedOrder& order, const std::vector<Known>& known) {
    if (order.places_recompute) return;
    const Time best = least_of(known);
    PathBound bound(space, setting, order, 2 * best);
    PathWalk walk(bound);
    Effort effort{.left = 0};
    const auto visit = [&](const Layout&) { return best; };
    CHECK_FALSE(walk.walk(2 * best, effort, visit));
  });
}

TEST_CASE("a walk leaves out what does not fit, though some stages may take no time",
          "[path_walk]") {
  int visited = 0, idle = 0, full = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    Problem problem = problem_with_columns(seed);
    // As a concatenation may be: what comes back goes on as it is.
    const auto layers = problem.profile.model.layers.size();
    for (ProfileEntry& entry : problem.profile.entries) {
      LayerCost& cost = entry.layers[seed % layers];
      cost.backward_input = cost.backward_weight = Duration{0};
    }
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock& clock, const TimedOrder& order) {
      if (order.places_recompute) return;
      PathBound bound(space, setting, order, never - 1);
      if (bound.recompute_choices().size() < 2) return;
      std::vector<Layout> found;
      PathWalk walk(bound);
      Effort effort{.left = plenty};
      CHECK(walk.walk(never - 1, effort, [&](const Layout& layout) {
        CHECK(may_fit(clock, layout));
        found.push_back(layout);
        return never - 1;
      }));
      visited += static_cast<int>(found.size());
      for_each_layout(space, setting, [&](const Layout& layout) {
        const bool is_found =
            std::ranges::any_of(found, [&](const Layout& other) { return is_same(layout, other); });
        const bool fits = may_fit(clock, layout);
        CHECK(is_found == fits);
        full += fits ? 0 : 1;
        for (int s = 0; s < layout.stages(); ++s) {
          const auto place = static_cast<std::size_t>(s);
          const LayerRange own{layout.cuts[place], layout.cuts[place + 1]};
          const CostTable& table = space.whole_microbatch(setting, bound.costs().device_of(s));
          idle += fits && table.backward_input(own) == Duration{0} ? 1 : 0;
        }
      });
    });
  }
  CHECK(visited > 1000);
  CHECK(idle > 100);
  CHECK(full > 1000);
}
