#include "planner/relaxations/path_bound.hpp"

#include <functional>

#include "planner/layouts/layouts.hpp"
#include "tests/catch.hpp"
#include "tests/planner/known_layouts.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Calls `visit` with all layouts that the bound's choices can be made into.
void for_each_choice(const PathBound& bound, std::vector<StageChoices::Choice>& layout,
                     const std::function<void()>& visit) {
  const int stage = static_cast<int>(layout.size());
  if (stage == bound.costs().stages()) return visit();
  const int first = layout.empty() ? 0 : layout.back().end;
  for (const StageChoices::Choice& choice : bound.choices().of(stage)) {
    if (choice.first != first) continue;
    layout.push_back(choice);
    for_each_choice(bound, layout, visit);
    layout.pop_back();
  }
}

/// Of all parts, those that are zero, too.
double weighed(const Weighting& weights, const Weighting& layout) {
  double sum = weights.constant;
  for (std::size_t s = 0; s < weights.stages.size(); ++s)
    sum += weighed(weights.stages[s], layout.stages[s]) + weighed(weights.cuts[s], layout.cuts[s]);
  return sum;
}

std::vector<StageChoices::Choice> choices_of(const Layout& layout) {
  std::vector<StageChoices::Choice> choices;
  for (std::size_t s = 0; s < layout.recompute.size(); ++s)
    choices.push_back({layout.cuts[s], layout.cuts[s + 1], layout.recompute[s]});
  return choices;
}

bool has_choices(const PathBound& bound, const Layout& layout) {
  const auto choices = choices_of(layout);
  for (int s = 0; s < layout.stages(); ++s) {
    if (!bound.choices().has(s, choices[static_cast<std::size_t>(s)])) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("no layout takes less than a path of another one", "[path_bound][seconds]") {
  int paths = 0, exact = 0;
  for_each_case(100, [&](const Space& space, const Setting& setting, FastClock& clock,
                         const TimedOrder& order, const std::vector<Known>& known) {
    const PipelineCosts costs(space, setting, never - 1);
    CriticalPasses passes(costs, order, setting.microbatches);
    const StageChoices choices(space, costs, order, {Recompute::none, Recompute::full});
    const auto length_in = [&](const PassCounts& path, const Layout& layout) {
      const Weighting weights = lengths(path, costs.tie());
      const Weighting parts = choices.parts(choices_of(layout));
      const double length = SparseWeighting(weights).weighed(parts);
      CHECK(length == weighed(weights, parts));
      return length;
    };
    for (std::size_t i = 0; i < known.size(); i += 1 + known.size() / 8) {
      double step = 0;
      const PassCounts path = passes.of(known[i].layout, step);
      CHECK(length_in(path, known[i].layout) == step);
      CHECK(step <= static_cast<double>(known[i].step));
      exact += step == static_cast<double>(clock.step(known[i].layout)) ? 1 : 0;
      ++paths;
      for (std::size_t j = 0; j < known.size(); j += 1 + known.size() / 16) {
        CHECK(length_in(path, known[j].layout) <= static_cast<double>(known[j].step));
      }
    }
    std::vector<PassCounts> paths_of_all = device_paths(costs, order);
    for (PassCounts& path : backward_paths(costs, order)) paths_of_all.push_back(std::move(path));
    for (const PassCounts& path : paths_of_all) {
      for (const Known& other : known) {
        CHECK(length_in(path, other.layout) <= static_cast<double>(other.step));
      }
    }
  });
  CHECK(paths > 500);
  CHECK(exact > paths * 9 / 10);
}

TEST_CASE("no layout that fits is faster than the bound by paths", "[path_bound][seconds]") {
  int cases = 0, closed = 0;
  for_each_case(150, [&](const Space& space, const Setting& setting, FastClock& clock,
                         const TimedOrder& order, const std::vector<Known>& known) {
    const Time best = least_of(known);
    PathBound bound(space, setting, order, best + best / 4);
    bound.raise(60, plenty, [&](const Layout& layout) {
      if (may_fit(clock, layout)) CHECK(clock.step(layout) <= never);
    });
    CHECK(bound.bound() <= best);
    CHECK(bound.spent() > 0);
    ++cases;
    closed += bound.bound() >= best - best / 50 ? 1 : 0;
    // What is known to be of use for one limit holds for another one.
    for (const Time limit : {best - 1, best, 3 * best, never - 1}) {
      PathBound other(space, setting, order, limit);
      other.know(bound.useful_paths());
      other.raise(10, plenty, [](const Layout&) {});
      CHECK(other.bound() <= best);
    }
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
    bound.raise(40, plenty, [](const Layout&) {});
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
    bound.raise(60, plenty, visit, stop.get_token());
    CHECK(bound.bound() == 0);
    PathBound other(space, setting, order, best + best / 4);
    other.raise(60, 0, visit);
    CHECK(other.bound() <= best);
  });
}

TEST_CASE("where every layout holds too much at some moment, none fits", "[path_bound][seconds]") {
  int always = 0, fitting = 0;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    const Problem problem = problem_with_columns(seed);
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock&, const TimedOrder& order) {
      PathBound bound(space, setting, order, never - 1);
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

TEST_CASE("choices of layouts that fit and are within the limit stay", "[path_bound][seconds]") {
  int within = 0, left = 0, all = 0;
  for_each_case(100, [&](const Space& space, const Setting& setting, FastClock&,
                         const TimedOrder& order, const std::vector<Known>& known) {
    if (order.places_recompute) return;
    const Time best = least_of(known);
    for (const Time limit : {best, best + best / 20, 2 * best}) {
      PathBound bound(space, setting, order, limit);
      bound.is_always_full();
      bound.raise(40, plenty, [](const Layout&) {});
      for (const Known& one : of_choices(known, space, bound.recompute_choices())) {
        ++all;
        left += has_choices(bound, one.layout) ? 1 : 0;
        if (one.step > limit) continue;
        ++within;
        CHECK(has_choices(bound, one.layout));
      }
    }
  });
  CHECK(within > 1000);
  // Most of what is above is left out.
  CHECK(left < within + (all - within) / 2);
}

TEST_CASE("the least of a sum is that of all layouts, and choices above its limit go",
          "[path_bound][seconds]") {
  int cases = 0, left_out = 0;
  for_each_case(40, [&](const Space& space, const Setting& setting, FastClock&,
                        const TimedOrder& order, const std::vector<Known>& known) {
    PathBound bound(space, setting, order, 2 * least_of(known));
    std::vector<PassCounts> paths = device_paths(bound.costs(), order);
    for (const PassCounts& path : paths) {
      const Weighting sum = lengths(path, bound.costs().tie());
      StageChoices choices = bound.choices();
      std::vector<std::pair<double, std::vector<StageChoices::Choice>>> values;
      std::vector<StageChoices::Choice> layout;
      for_each_choice(bound, layout,
                      [&] { values.emplace_back(weighed(sum, choices.parts(layout)), layout); });
      CHECK(choices.layouts() == static_cast<double>(values.size()));
      const double least =
          std::ranges::min_element(values, {}, [](const auto& one) { return one.first; })->first;
      const double most = 1.1 * least;
      StageChoices::Onward room;
      const StageChoices::Least found = choices.least(sum, most, room);
      CHECK(found.value == Approx(least).epsilon(1e-12));
      CHECK(weighed(sum, choices.parts(found.layout)) == Approx(least).epsilon(1e-12));
      const std::size_t before = bound.choices().count();
      for (int s = 0; s < bound.costs().stages(); ++s) {
        for (const StageChoices::Choice& choice : bound.choices().of(s)) {
          // Near the limit rounding decides.
          double own = 1e18;
          for (const auto& [value, other] : values) {
            if (other[static_cast<std::size_t>(s)] == choice) own = std::min(own, value);
          }
          if (own < most * (1 - 1e-9)) CHECK(choices.has(s, choice));
          if (own > most * (1 + 1e-9)) CHECK_FALSE(choices.has(s, choice));
        }
      }
      left_out += choices.count() < before ? 1 : 0;
      ++cases;
    }
  });
  CHECK(cases > 100);
  CHECK(left_out > cases / 3);
}

TEST_CASE("a proof comes to every layout that fits within its limit", "[path_bound][seconds]") {
  int cases = 0, within = 0, visited = 0, all = 0;
  for_each_case(150, [&](const Space& space, const Setting& setting, FastClock&,
                         const TimedOrder& order, const std::vector<Known>& known) {
    if (order.places_recompute) return;
    const Time best = least_of(known);
    for (const Time limit : {best, best + best / 20, best + best / 2}) {
      PathBound bound(space, setting, order, best + best / 2);
      bound.raise(10, plenty, [](const Layout&) {});
      const Time before = bound.bound();
      std::vector<Layout> found;
      Effort effort{.left = plenty};
      CHECK(bound.prove(limit, effort, [&](const Layout& layout) {
        found.push_back(layout);
        return limit;
      }));
      CHECK(effort.left < plenty);
      CHECK(bound.bound() == before);
      for (const Known& one : of_choices(known, space, bound.recompute_choices())) {
        ++all;
        if (one.step > limit) continue;
        ++within;
        CHECK(std::ranges::any_of(
            found, [&](const Layout& layout) { return is_same(layout, one.layout); }));
      }
      visited += static_cast<int>(found.size());
    }
    ++cases;
  });
  CHECK(cases > 150);
  CHECK(within > 2000);
  CAPTURE(visited, within, all);
  CHECK(visited < within + (all - within) / 2);
}

TEST_CASE("a proof goes on with the limit it is given", "[path_bound][seconds]") {
  int cases = 0;
  for_each_case(100, [&](const Space& space, const Setting& setting, FastClock&,
                         const TimedOrder& order, const std::vector<Known>& known) {
    if (order.places_recompute) return;
    const Time best = least_of(known), limit = 2 * best;
    PathBound bound(space, setting, order, limit);
    bound.raise(10, plenty, [](const Layout&) {});
    const auto found = [&](Time most) {
      return least_found(space, setting, most, [&](Time own, const auto& visit) {
        Effort effort{.left = plenty};
        CHECK(bound.prove(own, effort, visit));
      });
    };
    CHECK(found(limit) == best);
    CHECK(found(best) == best);
    CHECK(found(best - 1) == never);
    ++cases;
  });
  CHECK(cases > 100);
}

TEST_CASE("a proof without effort knows nothing, and says so", "[path_bound]") {
  for_each_case(5, [&](const Space& space, const Setting& setting, FastClock&,
                       const TimedOrder& order, const std::vector<Known>& known) {
    const Time best = least_of(known);
    PathBound bound(space, setting, order, 2 * best);
    Effort effort{.left = 0};
    CHECK_FALSE(bound.prove(2 * best, effort, [&](const Layout&) { return best; }));
  });
}
