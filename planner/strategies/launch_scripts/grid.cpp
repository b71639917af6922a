#include "planner/strategies/launch_scripts/grid.hpp"

#include <algorithm>
#include <numeric>

#include "planner/leaderboard.hpp"
#include "planner/space.hpp"
#include "planner/strategies/compatibility.hpp"

namespace stagecraft {

namespace {

bool has_empty_stage(const std::vector<int>& cuts) {
  return std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>()) != cuts.end();
}

std::vector<ForeignStage> stages_of(const std::vector<int>& cuts, int replicas) {
  std::vector<ForeignStage> stages;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    std::vector<int> layers(static_cast<std::size_t>(cuts[s + 1] - cuts[s]));
    std::iota(layers.begin(), layers.end(), cuts[s]);
    stages.push_back({.layers = std::move(layers), .replicas = replicas});
  }
  return stages;
}

std::vector<int> stage_counts(const Problem& problem) {
  const int devices = std::min(problem.devices.value_or(device_count(problem.cluster)),
                               device_count(problem.cluster));
  const int layers = static_cast<int>(problem.profile.model.layers.size());
  std::vector<int> counts;
  for (int stages = 1; stages <= std::min(devices, layers); ++stages) {
    if (devices % stages != 0 || stages > problem.max_stages.value_or(stages)) continue;
    if (problem.straight && stages != devices) continue;
    counts.push_back(stages);
  }
  return counts;
}

bool is_better(const Candidate& a, const Candidate& b) {
  if (!a.prediction || !b.prediction) return a.prediction.has_value() && !b.prediction;
  if (a.prediction->fits != b.prediction->fits) return a.prediction->fits;
  return a.prediction->step < b.prediction->step;
}

}  // namespace

SearchResult search_grid(const Problem& problem, const SearchControl& control,
                         std::string_view name, const CutRule& cuts, const CutQuality& quality) {
  const int devices = std::min(problem.devices.value_or(device_count(problem.cluster)),
                               device_count(problem.cluster));
  SearchResult result;
  result.strategy = std::string(name);
  std::optional<Candidate> best;
  for (const int stages : stage_counts(problem)) {
    for (const std::vector<int>& cut : cuts(stages)) {
      if (has_empty_stage(cut)) continue;
      if (control.stop.stop_requested()) {
        result.interrupted = true;
        break;
      }
      Candidate candidate = adopt(problem, name, stages_of(cut, devices / stages));
      ++result.candidates;
      candidate.objective = quality(cut);
      if (!best || is_better(candidate, *best)) best = std::move(candidate);
    }
  }
  if (!best) {
    if (!result.interrupted) {
      result.infeasible = {.reason = std::string(name) + " cannot cut this model into " +
                                     (problem.straight ? std::to_string(devices) + " stages"
                                                       : "stages for these devices"),
                           .short_by = 0,
                           .remedies = {}};
    }
    return result;
  }
  write_figures(*best, result);
  result.proved_optimal = best->objective->lower_bound >= best->objective->value;
  const Objective& objective = *best->objective;
  result.gap = objective.value > 0 ? 1 - std::min(objective.lower_bound / objective.value, 1.0) : 0;
  result.plans.push_back(*std::move(best));
  return result;
}

}  // namespace stagecraft
