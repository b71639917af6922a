#include "planner/problem/incumbents.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "planner/problem/objective.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// Of plans with equal steps, prefers fewer devices, then split replicas to round-robin ones, which
/// fewer systems support.
bool is_better(const Candidate& a, const Candidate& b) {
  if (pace(*a.prediction) != pace(*b.prediction)) return pace(*a.prediction) < pace(*b.prediction);
  const std::size_t devices_a = used_devices(a.plan).size();
  const std::size_t devices_b = used_devices(b.plan).size();
  if (devices_a != devices_b) return devices_a < devices_b;
  if (a.plan.replicas != b.plan.replicas) return a.plan.replicas == ReplicaPolicy::split;
  // The text of a plan on thousands of devices takes long to write, and most equally fast plans are
  // identical.
  return a.plan != b.plan && write_plan(a.plan) < write_plan(b.plan);
}

/// The stage's layers, by their indices in the model, ascending.
std::vector<int> layers_of(const Plan& plan, const Stage& stage) {
  std::vector<int> layers;
  for (int place = stage.layers.first; place < stage.layers.end; ++place)
    layers.push_back(plan.order.empty() ? place : plan.order[static_cast<std::size_t>(place)]);
  std::sort(layers.begin(), layers.end());
  return layers;
}

/// Whether the plans differ only in the order of a stage's replicas or layers.
bool do_the_same(const Candidate& a, const Candidate& b) {
  if (pace(*a.prediction) != pace(*b.prediction)) return false;
  if (a.plan.stages.size() != b.plan.stages.size()) return false;
  Plan other = b.plan;
  other.order = a.plan.order;
  // Another search may have found the plan before.
  other.predicted = a.plan.predicted;
  other.search = a.plan.search;
  for (std::size_t s = 0; s < other.stages.size(); ++s) {
    Stage& stage = other.stages[s];
    const Stage& own = a.plan.stages[s];
    if (!std::ranges::is_permutation(stage.devices, own.devices)) return false;
    if (layers_of(a.plan, own) != layers_of(b.plan, stage)) return false;
    stage.devices = own.devices;
    stage.layers = own.layers;
  }
  return other == a.plan;
}

}  // namespace

void Leaderboard::add(const Candidate& candidate) {
  if (!candidate.prediction || !candidate.prediction->fits || is_undecided(candidate)) return;
  const auto same = std::ranges::find_if(
      candidates_, [&](const Candidate& other) { return do_the_same(other, candidate); });
  if (same != candidates_.end()) {
    if (!is_better(candidate, *same)) return;
    candidates_.erase(same);
  }
  if (candidates_.size() == top_ && !is_better(candidate, candidates_.back())) return;
  const auto place = std::upper_bound(candidates_.begin(), candidates_.end(), candidate, is_better);
  candidates_.insert(place, candidate);
  if (candidates_.size() > top_) candidates_.pop_back();
}

std::optional<Duration> Leaderboard::threshold() const {
  if (candidates_.size() < top_) return {};
  return pace(*candidates_.back().prediction);
}

std::optional<Duration> Leaderboard::best() const {
  if (candidates_.empty()) return {};
  return pace(*candidates_.front().prediction);
}

void write_figures(Candidate& candidate, const SearchResult& result) {
  if (!candidate.prediction) return;
  const Prediction& prediction = *candidate.prediction;
  candidate.plan.predicted = predicted_figures(candidate.plan, prediction);
  const double step = seconds(pace(prediction));
  const double bound = seconds(std::min(result.lower_bound, pace(prediction)));
  const bool speaks_of_all = speaks_of_all_plans(result);
  candidate.plan.search =
      SearchFigures{.strategy = result.strategy,
                    .lower_bound = result.lower_bound,
                    .gap = step > 0 ? (step - bound) / step : 0,
                    .proved_optimal = speaks_of_all && pace(prediction) <= result.lower_bound,
                    .candidates = result.candidates,
                    .question = result.question,
                    .scope = speaks_of_all ? "" : result.families.scope()};
}

SearchResult finish(Leaderboard& board, SearchResult result) {
  if (const FamilyBound* binding = result.families.binding()) {
    result.lower_bound = binding->lower_bound;
    result.rests_on = binding->rests_on;
  }
  if (const auto best = board.best()) {
    result.lower_bound = std::min(result.lower_bound, *best);
    result.proved_optimal = result.lower_bound == *best;
    result.gap = best->count() > 0 ? seconds(*best - result.lower_bound) / seconds(*best) : 0;
  }
  result.plans = board.take();
  for (Candidate& candidate : result.plans) write_figures(candidate, result);
  return result;
}

}  // namespace stagecraft
