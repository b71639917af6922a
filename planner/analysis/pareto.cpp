#include <algorithm>

#include "planner/analysis/answers.hpp"
#include "planner/layouts/tightest_plan.hpp"
#include "planner/problem/objective.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// Whether a is at least as good as b in both, and they are not the same.
bool dominates(const Candidate& a, const Candidate& b) {
  const Bytes peak_a = largest_peak(a), peak_b = largest_peak(b);
  const Duration time_a = pace(*a.prediction), time_b = pace(*b.prediction);
  return peak_a <= peak_b && time_a <= time_b && (peak_a < peak_b || time_a < time_b);
}

/// Other planners answer with plans that do not fit, or that nobody can simulate, too.
bool may_follow(const SearchResult& result) {
  if (result.plans.empty()) return false;
  const std::optional<Prediction>& prediction = result.plans.front().prediction;
  return prediction && prediction->fits;
}

/// Equally fast plans come one after the other, each with less memory: the last one stays.
void remove_dominated(std::vector<Candidate>& plans) {
  const std::vector<Candidate> all = plans;
  std::erase_if(plans, [&](const Candidate& plan) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Candidate& other) { return dominates(other, plan); });
  });
}

/// The plan that needs least memory, whatever its step; nothing if none fits.
std::optional<Candidate> end_of_front(const Problem& problem, const std::stop_token& stop) {
  std::optional<Candidate> least;
  for (const Sharding sharding : sharding_choices(problem)) {
    auto plan = tightest_plan(Space(with_sharding(problem, sharding)), stop);
    if (!plan || !plan->prediction->fits) continue;
    if (!least || largest_peak(*plan) < largest_peak(*least)) least = std::move(plan);
  }
  return least;
}

}  // namespace

SearchResult pareto_front(Search search, const Problem& problem, const SearchControl& control,
                          int most, double spacing) {
  SearchControl own = control;
  own.top = 1;
  SearchResult front = search_for_objective(search, problem, own);
  if (!may_follow(front)) {
    front.proved_optimal = false;
    return front;
  }
  own.explain = false;
  // A front that is cut short still says how far down it goes.
  const bool is_ours = !front.plans.front().objective.has_value();
  const std::optional<Candidate> end = is_ours ? end_of_front(problem, control.stop) : std::nullopt;
  Problem smaller = problem;
  bool is_complete = false;
  while (static_cast<int>(front.plans.size()) < most) {
    const Bytes peak = largest_peak(front.plans.back());
    is_complete = peak == 0;
    if (is_complete || control.stop.stop_requested()) break;
    smaller.memory_cap = smaller_peak(peak, spacing);
    SearchResult next = search_for_objective(search, smaller, own);
    front.candidates += next.candidates;
    front.pruned += next.pruned;
    front.interrupted = front.interrupted || next.interrupted;
    is_complete = next.plans.empty() && !next.interrupted;
    if (!may_follow(next)) break;
    front.proved_optimal = front.proved_optimal && next.proved_optimal;
    front.plans.push_back(std::move(next.plans.front()));
  }
  if (end && !is_complete && largest_peak(*end) < largest_peak(front.plans.back()))
    front.plans.push_back(*end);
  // What another planner proves, it proves in its own cost model.
  const bool is_own = std::ranges::none_of(
      front.plans, [](const Candidate& plan) { return plan.objective.has_value(); });
  front.proved_optimal = front.proved_optimal && is_complete && is_own;
  remove_dominated(front.plans);
  return front;
}

}  // namespace stagecraft
