#include "planner/search/recompute_search.hpp"

#include <algorithm>

#include "planner/search/heuristics/usual_columns.hpp"
#include "planner/search/heuristics/warm_starts.hpp"
#include "planner/search/infeasible.hpp"
#include "planner/search/parts.hpp"
#include "planner/search/unsearched.hpp"
#include "planner/space/space.hpp"

namespace stagecraft {

namespace {

/// Effort of all parts together: that of one undivided search (exact.cpp).
constexpr std::int64_t effort_of_all_parts = 2'000'000'000;

/// Adds the best of the usual choices of every recomputation before the searches, so that the
/// answer is no worse however early the search is stopped. Not in searches of little effort, which
/// are one of many.
void add_first_plans(const Problem& problem, const SearchControl& control, Leaderboard& board) {
  if (control.effort || control.worth) return;
  for (const RecomputeEverywhere what : problem.recompute_everywhere) {
    const Problem one = with_recompute_everywhere(problem, what);
    const Space space(one);
    const std::optional<Candidate> first = first_columns(space);
    if (!first || !is_wanted(space, first->plan)) continue;
    board.add(*first);
    if (control.progress) control.progress({.best = board.best()});
    return;  // more recomputation takes longer
  }
}

}  // namespace

Problem with_most_recompute(const Problem& problem) {
  if (problem.recompute_everywhere.empty()) return problem;
  return with_recompute_everywhere(problem, problem.recompute_everywhere.back());
}

SearchResult search_each_recompute(SearchResult (*search)(const Problem&, const SearchControl&),
                                   const Problem& problem, const SearchControl& control) {
  const std::size_t count = problem.recompute_everywhere.size();
  SearchParts parts(control, count);
  add_first_plans(problem, control, parts.board());
  for (const RecomputeEverywhere what : problem.recompute_everywhere) {
    if (what != problem.recompute_everywhere.front() && parts.is_stopped()) {
      parts.leave_rest();
      break;
    }
    SearchControl own = parts.next();
    if (!control.effort) own.effort = effort_of_all_parts / static_cast<std::int64_t>(count);
    parts.take(search(with_recompute_everywhere(problem, what), own));
  }
  SearchResult result = parts.finish(problem, [&](const Plan& plan, Duration least_of_mixed) {
    Duration least = Duration::max();
    for (const RecomputeEverywhere what : problem.recompute_everywhere) {
      const Problem one = with_recompute_everywhere(problem, what);
      least = std::min(least, least_of_its_kind(Space(one), plan, least_of_mixed));
    }
    return least;
  });
  if (result.plans.empty() && !result.interrupted && control.explain) {
    const Problem most = with_most_recompute(problem);
    result.infeasible = explain_infeasible(most, Space(most), control.stop);
  }
  return result;
}

}  // namespace stagecraft
