#include <algorithm>

#include "planner/answers.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// Whether a is at least as good as b in both, and they are not the same.
bool dominates(const Candidate& a, const Candidate& b) {
  const Bytes peak_a = largest_peak(a), peak_b = largest_peak(b);
  const Duration time_a = pace(*a.prediction), time_b = pace(*b.prediction);
  return peak_a <= peak_b && time_a <= time_b && (peak_a < peak_b || time_a < time_b);
}

/// Equally fast plans come one after the other, each with less memory: the last one stays.
void remove_dominated(std::vector<Candidate>& plans) {
  const std::vector<Candidate> all = plans;
  std::erase_if(plans, [&](const Candidate& plan) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Candidate& other) { return dominates(other, plan); });
  });
}

}  // namespace

Bytes largest_peak(const Candidate& candidate) {
  Bytes most = 0;
  for (const MemoryPeak& peak : candidate.prediction->peaks) most = std::max(most, peak.bytes);
  return most;
}

SearchResult pareto_front(Search search, const Problem& problem, const SearchControl& control,
                          int most, double spacing) {
  SearchControl own = control;
  own.top = 1;
  SearchResult front = search_for_objective(search, problem, own);
  own.explain = false;
  Problem smaller = problem;
  bool is_complete = false;
  while (!front.plans.empty() && static_cast<int>(front.plans.size()) < most) {
    const Bytes peak = largest_peak(front.plans.back());
    is_complete = peak == 0;
    if (is_complete || control.stop.stop_requested()) break;
    const auto less = static_cast<Bytes>(static_cast<double>(peak) * spacing);
    smaller.memory_cap = peak - std::max<Bytes>(less, 1);
    SearchResult next = search_for_objective(search, smaller, own);
    front.candidates += next.candidates;
    front.pruned += next.pruned;
    front.interrupted = front.interrupted || next.interrupted;
    is_complete = next.plans.empty() && !next.interrupted;
    if (next.plans.empty()) break;
    front.proved_optimal = front.proved_optimal && next.proved_optimal;
    front.plans.push_back(std::move(next.plans.front()));
  }
  front.proved_optimal = front.proved_optimal && is_complete;
  remove_dominated(front.plans);
  return front;
}

}  // namespace stagecraft
