#include "tools/reports/bound_sentences.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "planner/problem/defaults.hpp"
#include "planner/problem/objective.hpp"
#include "planner/space/space.hpp"
#include "profiles/text.hpp"
#include "tools/table.hpp"

namespace stagecraft {

namespace {

/// What no plan that was searched takes less than; 0 where nothing is known of them.
Duration searched_bound(const SearchResult& search) {
  const FamilyBound* row = search.families.find(PlanFamily::searched);
  return row == nullptr ? Duration{0} : row->lower_bound;
}

/// How far from the optimum a plan may be that was not proved.
std::string distance_sentence(const SearchResult& search) {
  constexpr double least_shown = 0.0005;
  if (search.gap < least_shown) return "within less than 0.1 % of the optimum";
  if (search.lower_bound > Duration{0}) return "within " + percent(search.gap) + " of the optimum";
  if (searched_bound(search) <= Duration{0}) return "not proved: no bound was found";
  return "not proved: no bound is known for plans of this kind; those that were searched take " +
         format_duration(searched_bound(search)) + " or more";
}

/// Where the plan is of another kind, what is known of those that were searched.
std::string of_searched(const SearchResult& search) {
  const bool is_beyond = search.families.has(PlanFamily::any_kind) && search.families.leaves_out();
  if (!is_beyond || searched_bound(search) <= search.lower_bound) return "";
  return fmt::format("; {} take {} or more", search.families.scope(),
                     format_duration(searched_bound(search)));
}

/// What plans beyond the scope take or cost at least.
std::string least_of_others(const Problem& problem, const SearchResult& search) {
  const Duration least = search.families.least_left_out();
  if (problem.objective != ObjectiveKind::cost) return format_duration(least);
  const Candidate& best = search.plans.front();
  const Objective objective = objective_of(problem, best, search);
  const double times = seconds(least) / seconds(pace(*best.prediction));
  return fmt::format("{} {}", readable(times * objective.value, 6), objective.unit);
}

/// Of context parallelism what was not tried, where devices and sequence have room for it.
std::string context_not_tried(const Problem& problem) {
  int most = 1;
  for (const Parallelism& choice : parallelism_choices(problem))
    most = std::max(most, choice.context);
  const bool has_room = most <= available_devices(problem) / 2 && problem.sequence > 0 &&
                        problem.sequence % (2 * std::int64_t{most}) == 0;
  if (serves(problem) || !has_room || !estimates_kernels(problem.profile)) return "";
  return most == 1 ? "; context parallelism was not tried"
                   : fmt::format("; context-parallel degrees above {} were not tried", most);
}

}  // namespace

bool has_scope(const SearchResult& search) {
  return !speaks_of_all_plans(search);
}

std::string certificate_sentence(const Problem& problem, const SearchResult& search,
                                 bool is_front) {
  if (is_front) {
    return fmt::format("{} ({} simulated, {} discarded{})",
                       search.proved_optimal ? "proved: no other plan is better in both"
                                             : "not proved: other plans may be better in both",
                       search.candidates, search.pruned,
                       search.interrupted ? ", stopped early" : "");
  }
  std::string among = has_scope(search) ? " among " + search.families.scope() : "";
  if (has_scope(search) && search.families.least_left_out() > Duration{0}) {
    among += fmt::format("; plans of other kinds {} at least {}",
                         problem.objective == ObjectiveKind::cost ? "cost" : "take",
                         least_of_others(problem, search));
  }
  if (search.proved_optimal) {
    return fmt::format("optimal: proved over {} simulated and {} discarded candidates{}{}",
                       search.candidates, search.pruned, among, context_not_tried(problem));
  }
  return fmt::format("{} ({} simulated, {} discarded{}){}{}{}", distance_sentence(search),
                     search.candidates, search.pruned, search.interrupted ? ", stopped early" : "",
                     among, of_searched(search), context_not_tried(problem));
}

std::string looseness_sentence(const SearchResult& search) {
  if (search.gap <= 0 || search.lower_bound <= Duration{0} || search.rests_on.empty()) return "";
  return "the bound rests on " + search.rests_on + "\n";
}

}  // namespace stagecraft
