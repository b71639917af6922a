// The exact search: a plan, and the proof that no other plan of the space has a shorter simulated
// step.
//
// Settings with too many devices, or too many layouts, to enumerate are searched as identical
// pipeline replicas ("columns") only (planner/search/column_search.hpp); a bound by work covers
// their other plans. Faster plans of other families come last (planner/search/unsearched.hpp).
//
//   0. A first plan at once: the usual choices (first_columns).
//   1. Warm starts: plans of other planners (planner/search/heuristics/warm_starts.hpp), and even
//      and balanced splits of every setting, improved cut by cut with the fast clock.
//   2. Bisection: for each setting of one stage per device, the smallest step that its lower bound
//      allows (planner/relaxations/chain_bounds.hpp); every chain found on the way is tried.
//      Settings whose bound reaches the incumbent are done. Replicas come first, since their plans
//      rule most chains out at the first probe.
//   3. Enumeration: take the setting with the lowest bound, enumerate all its layouts with a bound
//      slightly above that cutoff, time the survivors with the fast clock, and simulate those that
//      are not ruled out. The bound of the setting rises to the cutoff. Repeat until all bounds
//      have reached the incumbent: proved.
//
// A branching model is searched along its own order of layers, then along a few others
// (planner/space/orders.hpp); for other devices than the first ones see
// planner/search/other_devices.hpp; for recomputation per layer, planner/search/layers_search.hpp;
// for degrees of context and expert parallelism, planner/search/degree_search.hpp.
//
// The lower bound reported is the smallest over settings, over orders of devices, and over orders
// of layers where another one than the model's own has won; each round of 3 raises it, so stopping
// at any time leaves an honest gap. Effort is counted in steps, not seconds: equal input gives an
// equal answer, gap included.

#include "planner/search/exact.hpp"

#include <algorithm>

#include "planner/problem/question.hpp"
#include "planner/relaxations/block_packing.hpp"
#include "planner/search/column_search.hpp"
#include "planner/search/degree_search.hpp"
#include "planner/search/heuristics/usual_columns.hpp"
#include "planner/search/heuristics/warm_starts.hpp"
#include "planner/search/infeasible.hpp"
#include "planner/search/layers_search.hpp"
#include "planner/search/one_order.hpp"
#include "planner/search/other_devices.hpp"
#include "planner/search/recompute_search.hpp"
#include "planner/search/simulated_search.hpp"
#include "planner/search/unsearched.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/space/orders.hpp"
#include "planner/space/room.hpp"

namespace stagecraft {

namespace {

/// Enough for some ten seconds, in all and for one setting. Proofs about blocks go on side by side,
/// so that these take no longer.
constexpr std::int64_t effort_in_all = 1'450'000'000, effort_for_blocks = 2'000'000'000;

/// Orders of a branching model's layers beside its own; each gets a part of the effort.
constexpr std::size_t most_other_orders = 3;

/// Not for small searches, which are one of many.
std::optional<Candidate> first_plan(const Space& space, const SearchControl& control) {
  if (control.effort) return {};
  std::optional<Candidate> first = first_columns(space);
  if (first && !is_wanted(space, first->plan)) return {};
  return first;
}

/// The plan that was shown is among those the answer is no worse than.
void add_unless_there(std::vector<Candidate>& starts, const Candidate& first) {
  const bool is_there = std::any_of(starts.begin(), starts.end(), [&](const Candidate& start) {
    return start.plan == first.plan;
  });
  if (!is_there) starts.push_back(first);
}

/// One setting tells whether layers are blocks.
std::int64_t usual_effort(const Space& space) {
  for (const Setting& setting : space.settings()) {
    const std::vector<Setting> columns = space.columns(setting);
    if (columns.empty()) continue;
    return BlockPacking::applies(space, columns.front()) ? effort_for_blocks : effort_in_all;
  }
  return effort_in_all;
}

/// What the bound rests on where plans beyond those that were searched make it lower.
std::string_view rests_on_beyond(const Space& space, const SearchResult& result) {
  if (result.lower_bound <= least_of_any_kind(space, result)) return relaxation::work_of_any_plan;
  return result.lower_bound == result.least_of_mixed ? relaxation::degrees_of_their_own
                                                     : relaxation::fastest_links;
}

/// Whether the best plan is as near to its bound as is asked for, where less than the best is.
bool is_near_enough(const SearchControl& control, const Leaderboard& board,
                    const SearchResult& result) {
  const auto best = board.best();
  if (control.gap <= 0 || !best) return false;
  return seconds(*best - result.lower_bound) <= control.gap * seconds(*best);
}

}  // namespace

SearchResult search_at_once(const Problem& problem, const SearchControl& control,
                            std::vector<Candidate> starts) {
  const Space space(problem);
  SearchResult result{.plans = {}, .infeasible = {}, .strategy = "exact"};
  result.lower_bound = Duration::max();
  Leaderboard board(control.top);
  const std::int64_t effort = control.effort.value_or(usual_effort(space));
  // Of one order among many, the bound says nothing.
  const std::int64_t own_effort = needs_placement(problem) ? effort / 4 : effort;
  search_one_order(problem, control, own_effort, starts, board, result);
  const bool is_enough = is_near_enough(control, board, result);
  if (!is_enough) search_fewer_devices(problem, space, control, effort / 4, board, result);
  const std::optional<Duration> own_best = board.best();
  const Duration own_bound = result.lower_bound;
  const std::string own_rest = result.rests_on;
  const auto orders = other_orders(problem, starts, is_enough ? 0 : most_other_orders);
  for (const std::vector<int>& order : orders) {
    if (result.interrupted) break;
    const Problem ordered = in_order(problem, order);
    search_one_order(ordered, control, effort / 4, starts, board, result);
  }
  if (board.best() == own_best) {
    result.lower_bound = own_bound;
    result.rests_on = own_rest;
  }
  if (problem.fixed.empty() && !numbers_ranks(problem) &&
      has_more_orders(problem.profile.model, orders.size() + 1)) {
    result.scope.add({.orders = static_cast<int>(orders.size()) + 1,
                      .least_of_others = least_of_any_kind(space, result)});
  }
  search_device_orders(problem, orders, space, control, effort, board, result);
  std::optional<SearchResult> best_links;
  if (needs_placement(problem) && !result.interrupted)
    best_links = search_placed(problem, space, control, effort, board, result);
  result.question = question_of(problem);
  result.searched_bound = std::min(result.lower_bound, board.best().value_or(Duration::max()));
  add_unsearched(space, control, std::move(starts), board, result);
  if (best_links) {
    take_bound(*best_links, space, result);
  } else if (needs_placement(problem)) {
    result.lower_bound = least_of_any_kind(space, result);
  }
  if (result.lower_bound < result.searched_bound) result.rests_on = rests_on_beyond(space, result);
  result = finish(board, std::move(result));
  if (needs_placement(problem) && !result.plans.empty() && !result.proved_optimal) {
    result.plans.front().prediction->notes.emplace_back(
        "some devices have links of their own, in more orders than were searched: the bound is "
        "that of links as fast as the fastest of each level");
  }
  if (result.plans.empty() && !result.interrupted && control.explain) {
    result.infeasible = explain_infeasible(problem, space, control.stop);
  }
  return result;
}

/// Without a look at any plan.
SearchResult nothing_fits(const Problem& problem, const SearchControl& control) {
  SearchResult result{.plans = {}, .infeasible = {}, .strategy = "exact"};
  result.question = question_of(problem);
  if (control.explain)
    result.infeasible = explain_infeasible(problem, Space(problem), control.stop);
  return result;
}

SearchResult search_given(const Problem& problem, const SearchControl& control) {
  if (!problem.recompute_layers.empty()) return search_layers(problem, control);
  const Space space(problem);
  if (control.only_scope) return search_at_once(problem, control, {});
  const std::optional<Candidate> first = first_plan(space, control);
  if (first && control.progress) control.progress({.best = pace(*first->prediction)});
  // However early the search ends, its answer is no worse than these.
  std::vector<Candidate> starts;
  if (!first || !control.stop.stop_requested()) starts = starting_plans(space, control);
  if (first) add_unless_there(starts, *first);
  return search_at_once(problem, control, std::move(starts));
}

SearchResult search_exact(const Problem& problem, const SearchControl& control) {
  if (problem.recompute_everywhere.size() > 1)
    return search_each_recompute(search_exact, problem, control);
  if (lacks_room_for_one_copy(problem)) return nothing_fits(problem, control);
  if (has_simulated_schedules(problem)) return search_with_simulated(problem, control);
  if (!problem.other_parallelism.empty()) return search_degrees(problem, control);
  return search_given(problem, control);
}

}  // namespace stagecraft
