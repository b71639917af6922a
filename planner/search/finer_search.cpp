#include "planner/search/finer_search.hpp"

#include <algorithm>

#include "planner/search/exact.hpp"
#include "planner/search/parts.hpp"
#include "planner/search/sharding_search.hpp"
#include "planner/space/schedule_choices.hpp"

namespace stagecraft {

namespace {

/// One or two seconds: a longer search hardly improves the plan, but this much improves the bound.
constexpr std::int64_t effort_of_bound = 400'000'000;

/// Whether the problem asks for exactly the usual numbers of virtual stages. False when the
/// cheapest plan is sought, since that takes many searches.
bool leaves_out_finer(const Problem& problem) {
  if (problem.objective == ObjectiveKind::cost) return false;
  const auto asks = [&](const ScheduleChoice& choice) {
    return std::ranges::find(problem.schedules, choice) != problem.schedules.end();
  };
  return std::ranges::all_of(schedule_choices("interleaved"), asks) &&
         std::ranges::none_of(finer_schedule_choices(), asks);
}

Problem of_finer_stages(Problem problem) {
  problem.schedules = finer_schedule_choices();
  return problem;
}

Problem and_finer_stages(Problem problem) {
  for (ScheduleChoice& choice : finer_schedule_choices())
    problem.schedules.push_back(std::move(choice));
  return problem;
}

/// Plans of finer stages that are faster than the incumbents, found by a short search.
std::vector<Candidate> look_for_better(const Problem& finer, const SearchControl& control,
                                       const Leaderboard& known) {
  SearchControl own{.stop = control.stop, .threads = control.threads};
  own.effort = SearchControl::of_a_look;  // the effort of searches for frameworks, which also try
                                          // finer stages
  own.explain = false;
  const Duration best = known.best().value_or(Duration::max());
  own.worth = best - Duration{1};
  std::vector<Candidate> plans = search_exact(finer, own).plans;
  std::erase_if(plans, [&](const Candidate& plan) { return pace(*plan.prediction) >= best; });
  return plans;
}

}  // namespace

SearchResult search_with_finer_stages(const Problem& problem, const SearchControl& control) {
  SearchResult usual = search_exact(problem, control);
  const bool is_small = control.effort || control.worth || control.only_scope;
  if (is_small || !leaves_out_finer(problem) || usual.interrupted) return usual;
  SearchParts parts(control, 1);
  parts.take(usual);
  const Problem finer = of_finer_stages(problem);
  const std::vector<Candidate> better = look_for_better(finer, control, parts.board());
  if (better.empty()) return usual;
  for (const Candidate& plan : better) parts.board().add(plan);
  SearchControl more = parts.next();
  more.effort = effort_of_bound;
  parts.take(search_exact(finer, more));
  const Problem both = and_finer_stages(problem);
  return parts.finish(both, [&](const Plan& plan, Duration least_of_mixed) {
    return least_beyond(both, plan, least_of_mixed);
  });
}

}  // namespace stagecraft
