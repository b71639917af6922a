#include "planner/search/unsearched.hpp"

#include <algorithm>

#include "planner/relaxations/relaxations.hpp"
#include "planner/search/column_search.hpp"
#include "planner/search/enumerate/mixed_search.hpp"
#include "planner/search/evaluator.hpp"
#include "planner/search/heuristics/nearby.hpp"
#include "planner/search/heuristics/warm_starts.hpp"
#include "planner/search/other_devices.hpp"
#include "planner/space/device_orders.hpp"

namespace stagecraft {

namespace {

/// About a second, for all plans.
constexpr std::int64_t effort_nearby = 100'000'000;

/// The fastest, made better step by step; nothing unless it is faster than `known`.
std::optional<Candidate> best_outside(const Space& space, const std::vector<Candidate>& plans,
                                      const std::optional<Duration>& known,
                                      const SearchControl& control) {
  Effort effort{.left = std::min(effort_nearby, control.effort.value_or(INT64_MAX) / 4),
                .stop = control.stop};
  std::optional<Candidate> best;
  const auto wanted = [&](const Plan& plan) { return is_wanted(space, plan); };
  for (const Candidate& plan : plans) {
    const Candidate candidate = best_nearby(space.problem(), plan, wanted, effort);
    const Duration step = pace(*candidate.prediction);
    if (known && step >= *known) continue;
    if (!best || step < pace(*best->prediction)) best = candidate;
  }
  return best;
}

/// The best plan there is, for a search near it: its stages may have degrees of their own. Not for
/// small searches.
void add_best(const Space& space, const SearchControl& control, Leaderboard& board,
              std::vector<Candidate>& plans) {
  if (space.problem().tensor_parallel.size() < 2 || control.effort) return;
  std::vector<Candidate> found = board.take();
  if (!found.empty()) plans.push_back(found.front());
  for (const Candidate& candidate : found) board.add(candidate);
}

/// How many replicas each stage has; 0 where they are not equally many.
int equal_replicas(const Plan& plan) {
  const std::size_t count = plan.stages.front().devices.size();
  const bool is_equal = std::ranges::all_of(
      plan.stages, [&](const Stage& stage) { return stage.devices.size() == count; });
  return is_equal ? static_cast<int>(count) : 0;
}

}  // namespace

int copies_of(const Plan& plan) {
  const int count = equal_replicas(plan);
  return count == 1 || plan.replicas == ReplicaPolicy::split ? count : 0;
}

namespace {

/// Whether this setting of columns has the plan.
bool is_column_of(const Setting& column, const Plan& plan) {
  const bool in_turns = column.columns > 1 && plan.replicas == ReplicaPolicy::round_robin;
  return column.in_turns == in_turns && column.columns == equal_replicas(plan) &&
         column.depth.value_or(pipeline_devices(plan)) == pipeline_devices(plan) &&
         column.whole() == plan.batch.microbatch;
}

/// Whether the plan is one of those that the search's bound speaks of.
bool is_searched(const Space& space, const Plan& plan) {
  if (!lies_in_space(space, plan)) return false;
  const std::size_t peers = plan.stages.front().devices.front().size();
  return std::ranges::any_of(space.settings(), [&](const Setting& setting) {
    if (setting.schedule.name != plan.schedule.name ||
        setting.schedule.virtual_stages != plan.schedule.virtual_stages ||
        static_cast<std::size_t>(setting.peers) != peers || !space.is_of(setting, plan)) {
      return false;
    }
    const bool wide = is_wide(space, setting);
    if (!wide && setting.replicas == plan.replicas && setting.microbatch == plan.batch.microbatch) {
      return true;
    }
    const auto columns = wide ? space.columns(setting) : space.copies(setting);
    return std::ranges::any_of(columns,
                               [&](const Setting& column) { return is_column_of(column, plan); });
  });
}

/// Whether the plan is one of those that the bound speaks of, but for the devices its stages are
/// on.
bool is_searched_elsewhere(const Space& space, const Plan& plan) {
  std::vector<int> numbers(static_cast<std::size_t>(device_count(space.cluster())), -1);
  const std::vector<int> devices = devices_in_use(space.problem());
  std::size_t used = 0;
  for (const Stage& stage : plan.stages) {
    for (const std::vector<int>& replica : stage.devices) {
      for (const int device : replica) {
        int& number = numbers[static_cast<std::size_t>(device)];
        if (number < 0) number = devices[used++];
      }
    }
  }
  const Plan in_a_row = renumbered(plan, numbers);
  return is_searched(space, in_a_row) || is_mixed_chain(space, in_a_row);
}

/// Whether stages on other devices are all that is left out.
bool leaves_out_only_devices(const FamilyBounds& bounds) {
  return bounds.has(PlanFamily::scattered_devices) &&
         std::ranges::count_if(bounds.rows(), &FamilyBound::is_left_out) == 1;
}

/// A plan that was not searched for says who found it.
void add_outside(const Space& space, const SearchControl& control,
                 const std::vector<Candidate>& plans, Leaderboard& board) {
  std::optional<Candidate> best = best_outside(space, plans, board.best(), control);
  if (!best) return;
  if (is_mixed_chain(space, best->plan) || is_searched(space, best->plan)) {
    best->name = name_of_searched;
    return board.add(*best);
  }
  const std::string finder = best->name == name_of_searched
                                 ? "this plan was found near the best one that was searched"
                                 : best->name + " found this plan or one near it";
  best->prediction->notes.push_back(finder +
                                    "; it is not among those that were searched, which have stages "
                                    "of consecutive layers on consecutive devices");
  board.add(*best);
}

}  // namespace

Duration least_of_its_kind(const Space& space, const Plan& plan, Duration least_of_mixed) {
  if (is_mixed_chain(space, plan)) return least_of_mixed;
  const auto& sizes = space.problem().microbatches;
  const auto is_listed = [&](std::int64_t size) {
    return std::find(sizes.begin(), sizes.end(), size) != sizes.end();
  };
  const int copies = space.problem().microbatch_per_copy ? copies_of(plan) : 0;
  const bool is_asked =
      is_listed(plan.batch.microbatch) || (copies > 0 && plan.batch.microbatch % copies == 0 &&
                                           is_listed(plan.batch.microbatch / copies));
  return Duration{is_asked ? ColumnBounds(space).least_of_any_kind() : 0};
}

namespace {

/// The same where a family of its own says what plans on other devices take at least.
FamilyBound of_any_kind(const Space& space, const Plan& plan, const FamilyBound& mixed) {
  const Duration least = is_searched_elsewhere(space, plan)
                             ? mixed.lower_bound
                             : least_of_its_kind(space, plan, mixed.lower_bound);
  return {PlanFamily::any_kind, least,
          least == mixed.lower_bound ? mixed.rests_on : std::string(relaxation::work_of_any_plan)};
}

/// Chains of several degrees; where a search has no time for them, nothing is known.
Searched search_several_degrees(const Space& space, const SearchControl& control,
                                Leaderboard& board) {
  Searched searched;
  if (has_several_degrees(space)) {
    if (!control.stop.stop_requested()) return search_mixed_degrees(space, control, board);
    searched.bounds.add({.family = PlanFamily::several_degrees});
  }
  return searched;
}

}  // namespace

Searched add_unsearched(const Space& space, const SearchControl& control,
                        std::vector<Candidate> starts, Leaderboard& board, Searched known) {
  add_best(space, control, board, starts);
  const std::optional<Duration> searched = board.best();
  // Of equal stages there are none beyond.
  if (!has_equal_stages(space.problem())) add_outside(space, control, starts, board);
  // Bounds on plans of every kind take costs of all layers in every setting.
  const bool has_time = !control.stop.stop_requested();
  const Searched several = search_several_degrees(space, control, board);
  known.counts.add(several.counts);
  known.counts.interrupted = known.counts.interrupted || control.stop.stop_requested();
  FamilyBound mixed{PlanFamily::several_degrees, Duration::max()};
  if (const FamilyBound* found = several.bounds.find(mixed.family)) mixed = *found;
  const Candidate* best = board.front();
  // A search by columns may also begin with a plan of another kind and find none that is better, or
  // come across uneven chains, in any order of layers or devices.
  const auto is_no_column = [&](const Plan& plan) {
    return lies_in_space(space, plan) || copies_of(plan) == 0;
  };
  const bool may_be_beyond =
      best != nullptr &&
      (board.best() != searched ||
       (known.bounds.has(PlanFamily::unequal_replicas) && is_no_column(best->plan)));
  const bool is_beyond = may_be_beyond && !is_searched(space, best->plan);
  if (is_beyond && is_mixed_chain(space, best->plan) && leaves_out_only_devices(known.bounds)) {
    // These stand on consecutive devices, too: the scope speaks of them.
    mixed.family = PlanFamily::searched;
    known.bounds.add(std::move(mixed));
    return known;
  }
  if (is_beyond) {
    known.bounds.add(has_time ? of_any_kind(space, best->plan, mixed)
                              : FamilyBound{.family = PlanFamily::any_kind});
  }
  if (mixed.lower_bound < board.best().value_or(Duration::max()))
    known.bounds.add(std::move(mixed));
  return known;
}

}  // namespace stagecraft
