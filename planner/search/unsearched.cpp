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

/// Effort of the local search, for all plans together: about a second.
constexpr std::int64_t effort_nearby = 100'000'000;

/// The fastest of the plans after local search; nothing unless it is faster than `known`.
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

/// Adds the incumbent to the starts of the local search, which may give its stages degrees of their
/// own. Not in searches of little effort.
void add_best(const Space& space, const SearchControl& control, Leaderboard& board,
              std::vector<Candidate>& plans) {
  if (space.problem().tensor_parallel.size() < 2 || control.effort) return;
  std::vector<Candidate> found = board.take();
  if (!found.empty()) plans.push_back(found.front());
  for (const Candidate& candidate : found) board.add(candidate);
}

/// Number of replicas of each stage; 0 if the stages differ.
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

/// Whether the plan belongs to this setting of columns.
bool is_column_of(const Setting& column, const Plan& plan) {
  const bool in_turns = column.columns > 1 && plan.replicas == ReplicaPolicy::round_robin;
  return column.in_turns == in_turns && column.columns == equal_replicas(plan) &&
         column.depth.value_or(pipeline_devices(plan)) == pipeline_devices(plan) &&
         column.whole() == plan.batch.microbatch;
}

/// Whether the search's bound covers the plan.
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

/// Whether the bound would cover the plan if its stages stood on consecutive devices.
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

/// Whether scattered devices are the only family that the bounds leave out.
bool leaves_out_only_devices(const FamilyBounds& bounds) {
  return bounds.has(PlanFamily::scattered_devices) &&
         std::ranges::count_if(bounds.rows(), &FamilyBound::is_left_out) == 1;
}

/// Adds the best plan near the starts. If its family was not searched, a note says where the plan
/// comes from.
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

/// The bound of any kind for this plan. A plan that is searched except for the places of its stages
/// takes the bound of several degrees.
FamilyBound of_any_kind(const Space& space, const Plan& plan, const FamilyBound& mixed) {
  const Duration least = is_searched_elsewhere(space, plan)
                             ? mixed.lower_bound
                             : least_of_its_kind(space, plan, mixed.lower_bound);
  return {PlanFamily::any_kind, least,
          least == mixed.lower_bound ? mixed.rests_on : std::string(relaxation::work_of_any_plan)};
}

/// Searches chains of several degrees. If a stop was requested, their bound is zero.
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
  // With equal stages required, there are no plans outside the searched families.
  if (!has_equal_stages(space.problem())) add_outside(space, control, starts, board);
  // Bounds on plans of any kind need the costs of all layers in every setting.
  const bool has_time = !control.stop.stop_requested();
  const Searched several = search_several_degrees(space, control, board);
  known.counts.add(several.counts);
  known.counts.interrupted = known.counts.interrupted || control.stop.stop_requested();
  FamilyBound mixed{PlanFamily::several_degrees, Duration::max()};
  if (const FamilyBound* found = several.bounds.find(mixed.family)) mixed = *found;
  const Candidate* best = board.front();
  // With a column search, the best plan may be a warm start of another family, or an uneven chain,
  // in any order of layers or devices.
  const auto is_no_column = [&](const Plan& plan) {
    return lies_in_space(space, plan) || copies_of(plan) == 0;
  };
  const bool may_be_beyond =
      best != nullptr &&
      (board.best() != searched ||
       (known.bounds.has(PlanFamily::unequal_replicas) && is_no_column(best->plan)));
  const bool is_beyond = may_be_beyond && !is_searched(space, best->plan);
  if (is_beyond && is_mixed_chain(space, best->plan) && leaves_out_only_devices(known.bounds)) {
    // Such chains stand on consecutive devices, too, so they belong to the searched family.
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
