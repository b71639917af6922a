#include "planner/search/degree_search.hpp"

#include <algorithm>

#include "planner/search/column_search.hpp"
#include "planner/search/exact.hpp"
#include "planner/search/heuristics/usual_columns.hpp"
#include "planner/search/heuristics/warm_starts.hpp"
#include "planner/search/infeasible.hpp"
#include "planner/search/layers_search.hpp"
#include "planner/search/parts.hpp"
#include "planner/search/unsearched.hpp"

namespace stagecraft {

namespace {

/// The question under the degrees asked for first.
Problem given_degrees(Problem problem) {
  problem.other_parallelism.clear();
  return problem;
}

/// The question under all others.
Problem other_degrees(Problem problem) {
  problem.parallelism = problem.other_parallelism.front();
  problem.other_parallelism.erase(problem.other_parallelism.begin());
  return problem;
}

bool has_given_degrees(const Space& space) {
  return std::ranges::any_of(space.settings(),
                             [](const Setting& setting) { return setting.choice == 0; });
}

bool has_other_degrees(const Space& space) {
  return std::ranges::any_of(space.settings(),
                             [](const Setting& setting) { return setting.choice > 0; });
}

/// Not where the first half has shown a plan, nor for small searches, which are one of many.
std::vector<Candidate> first_of_others(const Problem& others, const SearchControl& control) {
  if (control.effort) return {};
  const Space space(others);
  const std::optional<Candidate> first = first_columns(space);
  if (!first || !is_wanted(space, first->plan)) return {};
  if (control.progress) control.progress({.best = pace(*first->prediction)});
  return {*first};
}

SearchResult search_others(const Problem& problem, const SearchControl& control, bool has_plan) {
  const Problem others = other_degrees(problem);
  if (!others.recompute_layers.empty()) return search_layers(others, control);
  return search_at_once(others, control,
                        has_plan ? std::vector<Candidate>{} : first_of_others(others, control));
}

}  // namespace

SearchResult search_degrees(const Problem& problem, const SearchControl& control) {
  // Beside a plan that is known, which only a better one matters to, no degrees come first.
  if (control.only_scope && control.worth && problem.recompute_layers.empty())
    return search_at_once(problem, control, {});
  // Where nobody counts steps, all at once: what one shows rules others out.
  if (!control.effort && !control.stop.stop_requested()) return search_given(problem, control);
  const Space space(problem);
  SearchParts parts(control, 2);
  const SearchControl first = parts.next();
  if (has_given_degrees(space)) parts.take(search_given(given_degrees(problem), first));
  if (has_other_degrees(space)) {
    if (parts.is_stopped()) {
      parts.leave_rest();
    } else {
      const bool has_plan = parts.board().best().has_value();
      parts.take(search_others(problem, parts.next(), has_plan));
    }
  }
  SearchResult result = parts.finish(problem, [&](const Plan& plan, Duration least_of_mixed) {
    return least_of_its_kind(space, plan, least_of_mixed);
  });
  if (result.plans.empty() && !result.interrupted && control.explain) {
    result.infeasible = explain_infeasible(problem, space, control.stop);
  }
  return result;
}

}  // namespace stagecraft
