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
// for degrees of context and expert parallelism, planner/search/degree_search.hpp; for what is
// sharded over replicas, planner/search/sharding_search.hpp.
//
// The lower bound reported is the smallest over settings, over orders of devices, and over orders
// of layers where another one than the model's own has won; each round of 3 raises it, so stopping
// at any time leaves an honest gap. Effort is counted in steps, not seconds: equal input gives an
// equal answer, gap included.

#include "planner/search/exact.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "planner/plan/schedule_size.hpp"
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
#include "planner/search/sharding_search.hpp"
#include "planner/search/simulated_search.hpp"
#include "planner/search/unsearched.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/space/orders.hpp"
#include "planner/space/room.hpp"

namespace stagecraft {

namespace {

/// Default effort, some ten seconds. Problems of blocks get more, since their proofs run side by
/// side.
constexpr std::int64_t effort_in_all = 1'450'000'000, effort_for_blocks = 2'000'000'000;

/// Maximum number of other orders of a branching model's layers that are searched; each gets a part
/// of the effort.
constexpr std::size_t most_other_orders = 3;

/// A first plan to show at once. None in a search of little effort, which is one of many.
std::optional<Candidate> first_plan(const Space& space, const SearchControl& control) {
  if (control.effort) return {};
  std::optional<Candidate> first = first_columns(space);
  if (first && !is_wanted(space, first->plan)) return {};
  return first;
}

/// Adds the plan that was already shown to the warm starts, so that the answer is no worse.
void add_unless_there(std::vector<Candidate>& starts, const Candidate& first) {
  const bool is_there = std::any_of(starts.begin(), starts.end(), [&](const Candidate& start) {
    return start.plan == first.plan;
  });
  if (!is_there) starts.push_back(first);
}

/// The default effort. The first setting suffices to tell whether layers are blocks.
std::int64_t usual_effort(const Space& space) {
  for (const Setting& setting : space.settings()) {
    const std::vector<Setting> columns = space.columns(setting);
    if (columns.empty()) continue;
    return BlockPacking::applies(space, columns.front()) ? effort_for_blocks : effort_in_all;
  }
  return effort_in_all;
}

/// Whether the incumbent is within the requested gap of the bound, if a gap was requested.
bool is_near_enough(const SearchControl& control, const Leaderboard& board, Duration bound) {
  const auto best = board.best();
  if (control.gap <= 0 || !best) return false;
  return seconds(*best - bound) <= control.gap * seconds(*best);
}

/// The search of one problem: orders of layers, orders of devices, placement, and the families
/// beside them.
class SearchAtOnce {
 public:
  SearchAtOnce(const Problem& problem, const SearchControl& control, std::vector<Candidate> starts)
      : problem_(problem),
        control_(control),
        starts_(std::move(starts)),
        space_(problem),
        board_(control.top),
        effort_(control.effort.value_or(usual_effort(space_))) {}

  SearchResult run() {
    // If many orders of devices matter, the bound of one order is of little use, so it gets less
    // effort.
    const std::int64_t own_effort = needs_placement(problem_) ? effort_ / 4 : effort_;
    known_ = search_one_order(problem_, control_, own_effort, starts_, board_);
    const bool is_enough = is_near_enough(control_, board_, known_.bounds.searched());
    if (!is_enough) search_fewer();
    const auto orders = other_orders(problem_, starts_, is_enough ? 0 : most_other_orders);
    search_layer_orders(orders);
    known_ = search_device_orders(problem_, orders, space_, control_, effort_, board_,
                                  std::move(known_));
    PlacedSearch placed;
    if (needs_placement(problem_) && !known_.counts.interrupted) {
      placed = search_placed(problem_, space_, control_, effort_, board_);
      known_.add(placed.searched);
    }
    known_.bounds.cap_searched(board_.best().value_or(Duration::max()));
    known_ = add_unsearched(space_, control_, std::move(starts_), board_, std::move(known_));
    return answer(placed.best_links);
  }

 private:
  void search_fewer() {
    const Duration least = known_.bounds.least();
    if (control_.only_scope || known_.counts.interrupted ||
        least >= board_.best().value_or(Duration::max())) {
      return;
    }
    known_.counts.add(search_fewer_devices(problem_, space_, control_, effort_ / 4, board_));
  }

  /// Searches other orders of the layers. If one of them gives a better plan, the bound covers all
  /// of these orders.
  void search_layer_orders(const std::vector<std::vector<int>>& orders) {
    const std::optional<Duration> own_best = board_.best();
    Searched others;
    for (const std::vector<int>& order : orders) {
      if (known_.counts.interrupted) break;
      const Problem ordered = in_order(problem_, order);
      others.add(search_one_order(ordered, control_, effort_ / 4, starts_, board_));
      known_.counts.interrupted = others.counts.interrupted;
    }
    if (board_.best() == own_best) others.bounds.remove(PlanFamily::searched);
    known_.add(others);
    if (!problem_.fixed.empty() || numbers_ranks(problem_)) return;
    if (!has_more_orders(problem_.profile.model, orders.size() + 1)) return;
    FamilyBound row =
        bound_by_work(PlanFamily::other_layer_orders, space_, known_.counts.interrupted);
    row.orders = static_cast<int>(orders.size()) + 1;
    known_.bounds.add(std::move(row));
  }

  SearchResult answer(const std::optional<SearchResult>& best_links) {
    SearchResult result{known_.counts};
    result.strategy = "exact";
    result.families = known_.bounds;
    const bool is_of_any_kind = result.families.has(PlanFamily::any_kind);
    // A bound of zero needs no certificate.
    if (!is_of_any_kind || result.families.binding()->lower_bound > Duration{0})
      result.question = question_of(problem_);
    if (best_links && !is_of_any_kind) {
      result.families = best_links->families;
      result.question = best_links->question;
    } else if (needs_placement(problem_)) {
      result.families.add(bound_by_work(PlanFamily::any_kind, space_, known_.counts.interrupted));
    }
    result = finish(board_, std::move(result));
    if (needs_placement(problem_) && !result.plans.empty() && !result.proved_optimal) {
      result.plans.front().prediction->notes.emplace_back(
          "some devices have links of their own, in more orders than were searched: the bound is "
          "that of links as fast as the fastest of each level");
    }
    if (result.plans.empty() && !result.interrupted && control_.explain) {
      result.infeasible = explain_infeasible(problem_, space_, control_.stop);
    }
    return result;
  }

  const Problem& problem_;
  const SearchControl& control_;
  std::vector<Candidate> starts_;
  Space space_;
  Leaderboard board_;
  std::int64_t effort_ = 0;
  Searched known_;
};

/// The reason if the schedule of every plan asked for is too large to generate, judged by the
/// fewest stages and the most copies of the pipeline; empty if the schedule of some plan may be
/// small enough.
std::string against_every_schedule(const Problem& problem) {
  const int depth = problem.pinned.pipeline.value_or(1);
  const int devices = problem.devices.value_or(device_count(problem.cluster));
  const int most_copies =
      problem.straight ? 1 : problem.pinned.replicas.value_or(std::max(devices / depth, 1));
  double least = std::numeric_limits<double>::infinity();
  std::string why;  // the reason for the smallest schedule
  for (const std::int64_t microbatch : problem.microbatches) {
    const std::int64_t microbatches = problem.global_batch / microbatch / most_copies;
    if (microbatches > std::numeric_limits<int>::max())
      return {};  // a later check refuses it with
                  // a message of its own
    for (const ScheduleChoice& schedule : problem.schedules) {
      const int stages = depth * std::max(schedule.virtual_stages, 1);
      const double size = static_cast<double>(stages) *
                          static_cast<double>(microbatches * schedule.sequence_chunks);
      if (size >= least) continue;
      why = against_size(stages, static_cast<int>(microbatches), schedule.sequence_chunks);
      if (why.empty()) return {};
      least = size;
    }
  }
  return why;
}

SearchResult schedules_too_large(const Problem& problem, const std::string& why) {
  SearchResult result{.strategy = "exact"};
  result.question = question_of(problem);
  result.infeasible = {.reason = "no plan has the shape asked for: " + why,
                       .remedies = {"a larger --microbatch or --mbs, or a smaller --batch: a "
                                    "step's time grows in proportion with microbatches"}};
  return result;
}

}  // namespace

SearchResult search_at_once(const Problem& problem, const SearchControl& control,
                            std::vector<Candidate> starts) {
  return SearchAtOnce(problem, control, std::move(starts)).run();
}

/// The answer when one copy of the model cannot fit; no plan is tried.
SearchResult nothing_fits(const Problem& problem, const SearchControl& control) {
  SearchResult result{.strategy = "exact"};
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
  // The answer is no worse than these warm starts, however early the search is stopped.
  std::vector<Candidate> starts;
  if (!first || !control.stop.stop_requested()) starts = starting_plans(space, control);
  if (first) add_unless_there(starts, *first);
  return search_at_once(problem, control, std::move(starts));
}

SearchResult search_exact(const Problem& problem, const SearchControl& control) {
  if (const std::string why = against_every_schedule(problem); !why.empty())
    return schedules_too_large(problem, why);
  if (problem.known_costs == nullptr && problem.profile.entries.empty())
    return search_exact(with_known_costs(problem), control);
  if (!problem.other_sharding.empty()) return search_each_sharding(search_exact, problem, control);
  if (problem.recompute_everywhere.size() > 1)
    return search_each_recompute(search_exact, problem, control);
  if (lacks_room_for_one_copy(problem)) return nothing_fits(problem, control);
  if (has_simulated_schedules(problem)) return search_with_simulated(problem, control);
  if (!problem.other_parallelism.empty()) return search_degrees(problem, control);
  return search_given(problem, control);
}

}  // namespace stagecraft
