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

/// The problem restricted to the degrees that are searched first.
Problem given_degrees(Problem problem) {
  problem.other_parallelism.clear();
  return problem;
}

/// The problem restricted to all other degrees.
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

/// A first plan of the other degrees; none if the first half has found a plan, or in a search of
/// little effort, which is one of many.
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
  // If a plan is known and only better ones matter, all degrees are searched at once.
  if (control.only_scope && control.worth && problem.recompute_layers.empty())
    return search_at_once(problem, control, {});
  // Without a limit on effort, all degrees at once: a plan of one rules others out.
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
