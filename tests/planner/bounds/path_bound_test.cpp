#include "planner/bounds/path_bound.hpp"

#include "planner/layouts/layouts.hpp"
#include "tests/catch.hpp"
#include "tests/planner/known_layouts.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("no layout takes less than a path of another one", "[path_bound]") {
  int paths = 0, exact = 0;
  for_each_case(100, [&](const Space& space, const Setting& setting, FastClock& clock,
                         const TimedOrder& order, const std::vector<Known>& known) {
    const PipelineCosts costs(space, setting, never - 1);
    CriticalPasses passes(costs, order, setting.microbatches);
    for (std::size_t i = 0; i < known.size(); i += 1 + known.size() / 8) {
      double step = 0;
      const PassCounts path = passes.of(known[i].layout, step);
      CHECK(length(path, costs, order, known[i].layout) == step);
      CHECK(step <= static_cast<double>(known[i].step));
      exact += step == static_cast<double>(clock.step(known[i].layout)) ? 1 : 0;
      ++paths;
      for (std::size_t j = 0; j < known.size(); j += 1 + known.size() / 16) {
        CHECK(length(path, costs, order, known[j].layout) <= static_cast<double>(known[j].step));
      }
    }
    std::vector<PassCounts> paths_of_all = device_paths(costs, order);
    for (PassCounts& path : backward_paths(costs, order)) paths_of_all.push_back(std::move(path));
    for (const PassCounts& path : paths_of_all) {
      for (const Known& other : known) {
        CHECK(length(path, costs, order, other.layout) <= static_cast<double>(other.step));
      }
    }
  });
  CHECK(paths > 500);
  CHECK(exact > paths * 9 / 10);
}

TEST_CASE("no layout that fits is faster than the bound by paths", "[path_bound]") {
  int cases = 0, closed = 0;
  for_each_case(150, [&](const Space& space, const Setting& setting, FastClock& clock,
                         const TimedOrder& order, const std::vector<Known>& known) {
    const Time best = least_of(known);
    PathBound bound(space, setting, order, best + best / 4);
    bound.raise(60, best, [&](const Layout& layout) {
      if (may_fit(clock, layout)) CHECK(clock.step(layout) <= never);
    });
    CHECK(bound.bound() <= best);
    ++cases;
    closed += bound.bound() >= best - best / 50 ? 1 : 0;
    // Nothing of a time at which there is nothing.
    PathBound below(space, setting, order, best - 1);
    below.raise(10, best - 1, [](const Layout&) {});
    CHECK(below.bound() <= best);
  });
  CHECK(cases > 200);
  CHECK(closed > cases / 2);
}

TEST_CASE("for equal layers without limits the bound by paths is the step", "[path_bound]") {
  const auto name = GENERATE("1f1b", "gpipe", "zb-h1");
  const int p = GENERATE(1, 2, 4), m = GENERATE(4, 8);
  using namespace std::chrono_literals;
  Problem problem = problem_of(
      profile_of(std::vector<LayerCost>(static_cast<std::size_t>(p), layer_cost(10ns, 20ns))),
      cluster_of({{p, {}}}), m, {1}, {name});
  problem.straight = true;
  problem.use_fewer_devices = false;
  const Space space(problem);
  for (const Setting& setting : space.columns(space.settings().front())) {
    if (*setting.depth != p) continue;
    FastClock clock(space, setting);
    const std::vector<int> replicas(static_cast<std::size_t>(p), 1);
    const Time step = clock.step(balanced(space, setting, replicas));
    PathBound bound(space, setting, *clock.order_for(replicas), 2 * step);
    bound.raise(40, step, [](const Layout&) {});
    // A single layout: the bound is its longest path, up to rounding.
    CHECK(bound.bound() >= step - 1);
    CHECK(bound.bound() <= step);
  }
}

TEST_CASE("a bound by paths that is to stop takes no more rounds", "[path_bound]") {
  std::stop_source stop;
  stop.request_stop();
  for_each_case(5, [&](const Space& space, const Setting& setting, FastClock&,
                       const TimedOrder& order, const std::vector<Known>& known) {
    const Time best = least_of(known);
    PathBound bound(space, setting, order, best + best / 4);
    const auto visit = [](const Layout&) {};
    CHECK(bound.raise(60, best, visit, stop.get_token()) == 0);
    CHECK(bound.bound() <= best);
  });
}

TEST_CASE("where every layout holds too much at some moment, none fits", "[path_bound]") {
  int always = 0, fitting = 0;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    const Problem problem = problem_with_columns(seed);
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock&, const TimedOrder& order) {
      const PathBound bound(space, setting, order, never - 1);
      const bool fits = !fitting_layouts(space, setting).empty();
      if (bound.is_always_full()) {
        CHECK_FALSE(fits);
        ++always;
      }
      fitting += fits ? 1 : 0;
    });
  }
  CHECK(always > 20);
  CHECK(fitting > 100);
}
