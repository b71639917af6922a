#include "planner/search/recompute_search.hpp"

#include <algorithm>

#include "planner/problem/incumbents.hpp"
#include "planner/problem/question.hpp"
#include "planner/search/heuristics/usual_columns.hpp"
#include "planner/search/heuristics/warm_starts.hpp"
#include "planner/search/infeasible.hpp"
#include "planner/space/space.hpp"

namespace stagecraft {

namespace {

/// Of all parts together, as much as one search takes that is not divided (exact.cpp).
constexpr std::int64_t effort_of_all_parts = 2'000'000'000;

/// The best of the usual choices at once, whatever they do again: however early the search ends,
/// its answer is no worse. Not for small searches, which are one of many.
void add_first_plans(const Problem& problem, const SearchControl& control, Leaderboard& board) {
  if (control.effort || control.worth) return;
  for (const RecomputeEverywhere what : problem.recompute_everywhere) {
    const Problem one = with_recompute_everywhere(problem, what);
    const Space space(one);
    const std::optional<Candidate> first = first_columns(space);
    if (!first || !is_wanted(space, first->plan)) continue;
    board.add(*first);
    if (control.progress) control.progress({.best = board.best()});
    return;  // with more of it they take longer
  }
}

/// Only what is faster than these plans by more than the gap that is good enough.
void expect_better_than(const Leaderboard& board, SearchControl& control) {
  const auto threshold = board.threshold();
  if (!threshold) return;
  const double part = std::max(control.gap, 0.0) * seconds(*threshold) * 1e9;
  const Duration worth = *threshold - Duration{static_cast<Duration::rep>(part) + 1};
  control.worth = std::min(control.worth.value_or(worth), worth);
}

/// The control of one of so many parts.
SearchControl part_of(const SearchControl& control, std::size_t part, std::size_t parts) {
  SearchControl own = control;
  own.explain = false;
  if (control.progress) {
    own.progress = [&control, part, parts](SearchProgress progress) {
      progress.done = (static_cast<double>(part) + progress.done) / static_cast<double>(parts);
      control.progress(progress);
    };
  }
  return own;
}

void add_part(SearchResult& result, Leaderboard& board, const SearchResult& part) {
  for (const Candidate& plan : part.plans) board.add(plan);
  if (part.lower_bound < result.lower_bound) {
    result.lower_bound = part.lower_bound;
    result.rests_on = part.rests_on;
  }
  result.candidates += part.candidates;
  result.pruned += part.pruned;
  result.interrupted = result.interrupted || part.interrupted;
  result.scope.add(part.scope);
  result.least_of_mixed = std::min(result.least_of_mixed, part.least_of_mixed);
  result.bounds_any_kind = result.bounds_any_kind || part.bounds_any_kind;
}

}  // namespace

Problem with_most_recompute(const Problem& problem) {
  if (problem.recompute_everywhere.empty()) return problem;
  return with_recompute_everywhere(problem, problem.recompute_everywhere.back());
}

SearchResult search_each_recompute(SearchResult (*search)(const Problem&, const SearchControl&),
                                   const Problem& problem, const SearchControl& control) {
  SearchResult result{.plans = {}, .infeasible = {}, .strategy = "exact"};
  result.lower_bound = result.least_of_mixed = Duration::max();
  Leaderboard board(control.top);
  add_first_plans(problem, control, board);
  const std::size_t parts = problem.recompute_everywhere.size();
  for (std::size_t part = 0; part < parts; ++part) {
    if (part > 0 && control.stop.stop_requested() && board.best()) {
      result.interrupted = true;
      result.lower_bound = Duration{0};  // nothing is known of the others
      break;
    }
    SearchControl own = part_of(control, part, parts);
    expect_better_than(board, own);
    if (!control.effort) own.effort = effort_of_all_parts / static_cast<std::int64_t>(parts);
    const SearchResult found =
        search(with_recompute_everywhere(problem, problem.recompute_everywhere[part]), own);
    result.strategy = found.strategy;
    add_part(result, board, found);
  }
  result.question = question_of(problem);
  result.searched_bound = std::min(result.lower_bound, board.best().value_or(Duration::max()));
  if (result.scope.least_of_others >= board.best().value_or(Duration::max())) result.scope = {};
  result = finish(board, std::move(result));
  if (result.plans.empty() && !result.interrupted && control.explain) {
    const Problem most = with_most_recompute(problem);
    result.infeasible = explain_infeasible(most, Space(most), control.stop);
  }
  return result;
}

}  // namespace stagecraft
