// Small settings of columns, with all layouts that fit and what these take.

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
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

inline bool is_same(const Layout& a, const Layout& b) {
  return a.cuts == b.cuts && a.recompute == b.recompute;
}

/// Effort for any of them.
inline constexpr std::int64_t plenty = 1'000'000'000;

/// What `search(most, visit)` comes to, which gives `visit` layouts of at most so much by their
/// paths and takes the limit from then on: the least step of them, by simulation.
template <class Search>
Time least_found(const Space& space, const Setting& setting, Time most, const Search& search) {
  Time least = never;
  search(most, [&](const Layout& layout) {
    const Candidate candidate = space.evaluate("found", space.plan(setting, layout));
    // The path may be shorter than what the simulator says.
    const bool fits = candidate.prediction && candidate.prediction->fits;
    const Time step = fits ? candidate.prediction->step.count() : never;
    if (step <= most) least = std::min(least, step);
    return std::min(most, least - 1);
  });
  return least;
}

/// The known ones of these choices of recomputation (what nobody's memory limits need not
/// recompute).
inline std::vector<Known> of_choices(const std::vector<Known>& known, const Space& space,
                                     const std::vector<Recompute>& again) {
  if (again.size() >= space.problem().recompute.size()) return known;
  std::vector<Known> own;
  std::ranges::copy_if(known, std::back_inserter(own), [&](const Known& one) {
    return std::ranges::all_of(one.layout.recompute,
                               [&](Recompute choice) { return choice == again[0]; });
  });
  return own;
}

inline Time least_of(const std::vector<Known>& known) {
  Time least = never;
  for (const Known& one : known) least = std::min(least, one.step);
  return least;
}

}  // namespace stagecraft::tests
