#include "planner/bounds/path_walk.hpp"

#include "planner/layouts/layouts.hpp"
#include "tests/catch.hpp"
#include "tests/planner/known_layouts.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

bool is_same(const Layout& a, const Layout& b) {
  return a.cuts == b.cuts && a.recompute == b.recompute;
}

constexpr std::int64_t plenty = 1'000'000'000;

}  // namespace

TEST_CASE("a walk along paths comes to every layout that fits within its limit", "[path_walk]") {
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
        for (const Known& one : known) {
          // What nobody's memory limits need not recompute.
          const bool may_differ =
              bound.recompute_choices().size() < space.problem().recompute.size();
          const auto is_choice = [&](Recompute choice) {
            return choice == bound.recompute_choices()[0];
          };
          if (may_differ && !std::ranges::all_of(one.layout.recompute, is_choice)) continue;
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
          "[path_walk]") {
  int cases = 0;
  for_each_case(100, [&](const Space& space, const Setting& setting, FastClock&,
                         const TimedOrder& order, const std::vector<Known>& known) {
    if (order.places_recompute) return;
    const Time best = least_of(known), limit = 2 * best;
    PathBound bound(space, setting, order, limit);
    bound.raise(10, plenty, [](const Layout&) {});
    PathWalk walk(bound);
    Effort effort{.left = plenty};
    const auto least_found = [&](Time most) {
      Time least = never;
      CHECK(walk.walk(most, effort, [&](const Layout& layout) {
        const Candidate candidate = space.evaluate("walk", space.plan(setting, layout));
        // The path may be shorter than what the simulator says.
        const bool fits = candidate.prediction && candidate.prediction->fits;
        const Time step = fits ? candidate.prediction->step.count() : never;
        if (step <= most) least = std::min(least, step);
        return std::min(most, least - 1);
      }));
      return least;
    };
    CHECK(least_found(limit) == best);
    CHECK(least_found(best) == best);
    CHECK(least_found(best - 1) == never);
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
