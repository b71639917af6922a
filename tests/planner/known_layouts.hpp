// Small settings of columns, with all layouts that fit and what these take.

#pragma once

#include <algorithm>
#include <vector>

#include "tests/catch.hpp"
#include "tests/planner/columns_cases.hpp"
#include "tests/planner/shared_cases.hpp"

namespace stagecraft::tests {

/// A layout that fits, and what the simulator says.
struct Known {
  Layout layout;
  Time step = 0;
};

inline std::vector<Known> fitting_layouts(const Space& space, const Setting& setting) {
  std::vector<Known> known;
  for_each_layout(space, setting, [&](const Layout& layout) {
    const Candidate candidate = space.evaluate("all", space.plan(setting, layout));
    if (!candidate.prediction || !candidate.prediction->fits) return;
    known.push_back({layout, candidate.prediction->step.count()});
  });
  return known;
}

/// So many problems, and a tenth as many with degrees to share layers.
template <class Visit>
void for_each_case(std::uint32_t cases, const Visit& visit) {
  for (std::uint32_t seed = 0; seed < cases + cases / 10; ++seed) {
    INFO("seed " << seed);
    const Problem problem = seed < cases ? problem_with_columns(seed) : shared_problem(seed);
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock& clock, const TimedOrder& order) {
      const std::vector<Known> known = fitting_layouts(space, setting);
      if (!known.empty()) visit(space, setting, clock, order, known);
    });
  }
}

inline Time least_of(const std::vector<Known>& known) {
  Time least = never;
  for (const Known& one : known) least = std::min(least, one.step);
  return least;
}

}  // namespace stagecraft::tests
