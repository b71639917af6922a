#include "planner/search/sharding_search.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "planner/layouts/tightest_plan.hpp"
#include "planner/search/heuristics/usual_columns.hpp"
#include "planner/search/heuristics/warm_starts.hpp"
#include "planner/search/infeasible.hpp"
#include "planner/search/parts.hpp"
#include "planner/search/recompute_search.hpp"
#include "planner/search/unsearched.hpp"
#include "planner/space/space.hpp"

namespace stagecraft {

namespace {

/// A first plan from the usual choices under this sharding, with any recomputation.
std::optional<Candidate> first_plan_of(const Problem& problem) {
  if (problem.recompute_everywhere.size() < 2) return first_columns(Space(problem));
  for (const RecomputeEverywhere what : problem.recompute_everywhere) {
    const Problem one = with_recompute_everywhere(problem, what);
    if (auto first = first_columns(Space(one))) return first;  // more recomputation takes longer
  }
  return {};
}

/// The ways of sharding, those with the fastest usual choices first, since a good plan soon rules
/// the others out. The board gets these plans. Searches of little effort, which are one of many,
/// keep the given order.
std::vector<Sharding> in_order_of_first_plans(const Problem& problem, const SearchControl& control,
                                              Leaderboard& board) {
  std::vector<Sharding> choices = sharding_choices(problem);
  if (control.effort || control.worth) return choices;
  std::map<Sharding, Duration> first;
  for (const Sharding sharding : choices) {
    first[sharding] = Duration::max();
    if (control.stop.stop_requested() && board.best()) continue;
    const Problem one = with_sharding(problem, sharding);
    const std::optional<Candidate> plan = first_plan_of(one);
    if (!plan || !is_wanted(Space(one), plan->plan)) continue;
    first[sharding] = pace(*plan->prediction);
    board.add(*plan);
    if (control.progress) control.progress({.best = board.best()});
  }
  std::ranges::stable_sort(choices, {}, [&](Sharding sharding) { return first.at(sharding); });
  return choices;
}

}  // namespace

Duration least_beyond(const Problem& problem, const Plan& plan, Duration least_of_mixed) {
  Duration least = Duration::max();
  for (const Sharding sharding : sharding_choices(problem)) {
    const Problem one = with_sharding(problem, sharding);
    least = std::min(least, least_of_its_kind(Space(one), plan, least_of_mixed));
  }
  return least;
}

NearestToFit nearest_to_fit(const Problem& problem, const std::stop_token& stop) {
  Bytes least = std::numeric_limits<Bytes>::max();
  NearestToFit nearest{with_sharding(problem, problem.optimizer.sharding), {}};
  for (const Sharding sharding : sharding_choices(problem)) {
    const Problem one = with_most_recompute(with_sharding(problem, sharding));
    std::optional<Candidate> plan = tightest_plan(Space(one), stop);
    if (!plan || !plan->prediction || shortfall(*plan->prediction) >= least) continue;
    least = shortfall(*plan->prediction);
    nearest = {with_sharding(problem, sharding), std::move(plan)};
  }
  return nearest;
}

SearchResult search_each_sharding(SearchResult (*search)(const Problem&, const SearchControl&),
                                  const Problem& problem, const SearchControl& control) {
  SearchParts parts(control, problem.other_sharding.size() + 1);
  const std::vector<Sharding> choices = in_order_of_first_plans(problem, control, parts.board());
  for (const Sharding sharding : choices) {
    if (sharding != choices.front() && parts.is_stopped()) {
      parts.leave_rest();
      break;
    }
    SearchControl own = parts.next();
    if (control.effort) own.effort = *control.effort / std::ssize(choices);
    // Of all ways but the first, only plans that the bound covers are searched.
    own.only_scope = own.only_scope || sharding != choices.front();
    parts.take(search(with_sharding(problem, sharding), own));
  }
  SearchResult result = parts.finish(problem, [&](const Plan& plan, Duration least_of_mixed) {
    return least_beyond(problem, plan, least_of_mixed);
  });
  if (result.plans.empty() && !result.interrupted && control.explain) {
    NearestToFit nearest = nearest_to_fit(problem, control.stop);
    const Problem closest = with_most_recompute(nearest.problem);
    result.infeasible =
        explain_infeasible(closest, Space(closest), control.stop, std::move(nearest.plan));
  }
  return result;
}

}  // namespace stagecraft
