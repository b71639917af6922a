#include "planner/unsearched.hpp"

#include <algorithm>

#include "planner/column_bounds.hpp"
#include "planner/columns.hpp"
#include "planner/judge.hpp"
#include "planner/mixed_search.hpp"
#include "planner/nearby.hpp"
#include "planner/starts.hpp"

namespace stagecraft {

namespace {

/// About a second, for all plans.
constexpr std::int64_t effort_nearby = 100'000'000;

/// The fastest, made better step by step; nothing unless it is faster than `known`.
std::optional<Candidate> best_outside(const Space& space, const std::vector<Candidate>& plans,
                                      const std::optional<Duration>& known,
                                      const SearchControl& control) {
  Effort effort{.left = std::min(effort_nearby, control.effort.value_or(INT64_MAX) / 4)};
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

bool has_several_degrees(const Space& space) {
  const auto& settings = space.settings();
  return std::any_of(settings.begin(), settings.end(), [&](const Setting& setting) {
    return setting.peers != settings.front().peers;
  });
}

/// Whether all stages have equally many replicas that do the same at the same time.
bool is_in_lockstep(const Space& space, const Plan& plan) {
  const std::vector<std::vector<int>>& first = plan.stages.front().devices;
  const auto replicas = static_cast<int>(first.size());
  const bool is_equal = std::ranges::all_of(
      plan.stages, [&](const Stage& stage) { return stage.devices.size() == first.size(); });
  if (!is_equal) return false;
  return replicas == 1 ||
         (plan.replicas == ReplicaPolicy::split && plan.batch.microbatch % replicas == 0 &&
          has_alike_blocks(space.cluster(), replicas * static_cast<int>(first.front().size())));
}

/// Whether the plan is one of those that the search's bound speaks of.
bool is_searched(const Space& space, const Scope& scope, const Plan& plan) {
  const Problem& problem = space.problem();
  const auto is_asked = [&](std::int64_t microbatch) {
    return std::ranges::find(problem.microbatches, microbatch) != problem.microbatches.end();
  };
  const bool has_schedule =
      std::ranges::any_of(problem.schedules, [&](const ScheduleChoice& choice) {
        return choice.name == plan.schedule.name &&
               choice.virtual_stages == plan.schedule.virtual_stages;
      });
  if (!has_schedule || !lies_in_space(space, plan)) return false;
  const bool in_lockstep = is_in_lockstep(space, plan);
  const auto copies = static_cast<std::int64_t>(plan.stages.front().devices.size());
  const bool has_microbatch =
      is_asked(plan.batch.microbatch) ||
      (problem.microbatch_per_copy && in_lockstep && is_asked(plan.batch.microbatch / copies));
  return has_microbatch && (in_lockstep || !scope.equal_replicas);
}

/// A plan that was not searched for says who found it.
void add_outside(const Space& space, const SearchControl& control, const Scope& scope,
                 const std::vector<Candidate>& plans, Leaderboard& board) {
  std::optional<Candidate> best = best_outside(space, plans, board.best(), control);
  if (!best) return;
  if (is_mixed_chain(space, best->plan) || is_searched(space, scope, best->plan)) {
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
  const bool is_asked = std::find(sizes.begin(), sizes.end(), plan.batch.microbatch) != sizes.end();
  return Duration{is_asked ? ColumnBounds(space).least_of_any_kind() : 0};
}

void add_unsearched(const Space& space, const SearchControl& control, std::vector<Candidate> starts,
                    Leaderboard& board, SearchResult& result) {
  add_best(space, control, board, starts);
  const std::optional<Duration> searched = board.best();
  add_outside(space, control, result.scope, starts, board);
  result.least_of_mixed = has_several_degrees(space)
                              ? search_mixed_degrees(space, control, board, result)
                              : Duration::max();
  result.interrupted = result.interrupted || control.stop.stop_requested();
  const Candidate* best = board.front();
  if (best != nullptr && board.best() != searched &&
      !is_searched(space, result.scope, best->plan)) {
    // Its bound speaks of all kinds, those beyond the scope included.
    result.lower_bound = std::min({result.lower_bound, result.scope.least_of_others,
                                   least_of_its_kind(space, best->plan, result.least_of_mixed)});
    result.bounds_any_kind = true;
    if (!is_mixed_chain(space, best->plan)) result.question.reset();
  }
  if (result.least_of_mixed < board.best().value_or(Duration::max()))
    result.scope.add({.one_degree = true, .least_of_others = result.least_of_mixed});
}

}  // namespace stagecraft
