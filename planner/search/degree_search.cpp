#include "planner/search/degree_search.hpp"

#include <algorithm>

#include "planner/problem/incumbents.hpp"
#include "planner/problem/question.hpp"
#include "planner/search/column_search.hpp"
#include "planner/search/enumerate/mixed_search.hpp"
#include "planner/search/exact.hpp"
#include "planner/search/heuristics/usual_columns.hpp"
#include "planner/search/heuristics/warm_starts.hpp"
#include "planner/search/infeasible.hpp"
#include "planner/search/layers_search.hpp"
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

/// The control of one half of the search, 0 or 1.
SearchControl half_of(const SearchControl& control, int half) {
  SearchControl own = control;
  own.explain = false;
  if (!control.progress) return own;
  own.progress = [&control, half](SearchProgress progress) {
    progress.done = (half + progress.done) / 2;
    control.progress(progress);
  };
  return own;
}

/// Only what is faster than these plans by more than the gap that is good enough.
void expect_more_than(const Leaderboard& board, SearchControl& control) {
  const auto threshold = board.threshold();
  if (!threshold) return;
  const auto part = static_cast<Duration::rep>(static_cast<double>(threshold->count()) *
                                               std::max(control.gap, 0.0));
  const Duration worth = *threshold - Duration{part + 1};
  control.worth = std::min(control.worth.value_or(worth), worth);
}

/// One half.
void add(SearchResult& result, Leaderboard& board, const SearchResult& part) {
  for (const Candidate& plan : part.plans) board.add(plan);
  if (part.searched_bound < result.lower_bound) {
    result.lower_bound = part.searched_bound;
    result.rests_on = part.rests_on;
  }
  result.candidates += part.candidates;
  result.pruned += part.pruned;
  result.interrupted = result.interrupted || part.interrupted;
  result.scope.add(part.scope);
  result.least_of_mixed = std::min(result.least_of_mixed, part.least_of_mixed);
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
  const Space space(problem);
  SearchResult result{.plans = {}, .infeasible = {}, .strategy = "exact"};
  result.lower_bound = result.least_of_mixed = Duration::max();
  result.question = question_of(problem);
  Leaderboard board(control.top);
  std::optional<Candidate> outside;  // the best plan of another kind than those searched
  const auto take = [&](const SearchResult& part) {
    add(result, board, part);
    if (!part.bounds_any_kind || part.plans.empty()) return;
    const Candidate& best = part.plans.front();
    if (!outside || pace(*best.prediction) < pace(*outside->prediction)) outside = best;
  };
  if (has_given_degrees(space)) take(search_given(given_degrees(problem), half_of(control, 0)));
  if (has_other_degrees(space) && board.best() && control.stop.stop_requested()) {
    result.interrupted = true;
    result.lower_bound = Duration{0};  // nothing is known of the others
  } else if (has_other_degrees(space)) {
    SearchControl second = half_of(control, 1);
    expect_more_than(board, second);
    take(search_others(problem, second, board.best().has_value()));
  }
  result.searched_bound = std::min(result.lower_bound, board.best().value_or(Duration::max()));
  if (outside && pace(*outside->prediction) <= board.best()) {
    result.lower_bound = std::min({result.lower_bound, result.scope.least_of_others,
                                   least_of_its_kind(space, outside->plan, result.least_of_mixed)});
    result.bounds_any_kind = true;
    if (result.lower_bound <= Duration{0}) result.question.reset();  // nothing to prove
  }
  if (result.scope.least_of_others >= board.best().value_or(Duration::max())) result.scope = {};
  result = finish(board, std::move(result));
  if (result.plans.empty() && !result.interrupted && control.explain) {
    result.infeasible = explain_infeasible(problem, space, control.stop);
  }
  return result;
}

}  // namespace stagecraft
