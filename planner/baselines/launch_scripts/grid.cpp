#include "planner/baselines/launch_scripts/grid.hpp"

#include <algorithm>
#include <numeric>

#include "planner/baselines/compatibility.hpp"
#include "planner/problem/incumbents.hpp"
#include "planner/space/space.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

bool has_empty_stage(const std::vector<int>& cuts) {
  return std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>()) != cuts.end();
}

namespace {

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

bool has_cuts(const CutRule& cuts, int stages) {
  const auto all = cuts(stages);
  return !std::all_of(all.begin(), all.end(), has_empty_stage);
}

/// The most stages below `below` that the planner can make, and the fewest above `above`; 0: none.
std::pair<int, int> nearest_counts(const CutRule& cuts, int below, int above, int layers) {
  std::pair<int, int> nearest{0, 0};
  for (int fewer = std::min(below - 1, layers); fewer >= 1 && nearest.first == 0; --fewer) {
    if (has_cuts(cuts, fewer)) nearest.first = fewer;
  }
  for (int more = above + 1; more <= layers && nearest.second == 0; ++more) {
    if (has_cuts(cuts, more)) nearest.second = more;
  }
  return nearest;
}

/// A remedy is named if the planner has a plan then that runs and fits.
void try_remedy(std::vector<std::string>& remedies, const Problem& changed, const CutRule& cuts,
                const CutQuality& quality, std::string words) {
  const SearchResult result = search_grid(changed, {}, "", cuts, quality);
  const bool fits = !result.plans.empty() && result.plans.front().prediction &&
                    result.plans.front().prediction->fits;
  if (fits) remedies.push_back(std::move(words));
}

Infeasible no_cuts(const Problem& problem, int devices, std::string_view name, const CutRule& cuts,
                   const CutQuality& quality) {
  const auto layers = static_cast<int>(problem.profile.model.layers.size());
  Infeasible infeasible;
  if (!problem.straight) {
    infeasible.reason = concat(name, " cannot cut this model into stages for these devices");
    return infeasible;
  }
  const int below = std::min(devices, problem.max_stages.value_or(devices) + 1);
  const auto [fewer, more] = nearest_counts(cuts, below, devices, layers);
  infeasible.reason = concat(name, " cannot cut this model into ", devices,
                             " stages, as --straight asks for on ", devices, " devices");
  if (devices > problem.max_stages.value_or(devices)) {
    infeasible.reason += concat(", and --max-stages allows ", *problem.max_stages);
  }
  if (fewer > 0 || more > 0) {
    infeasible.reason +=
        concat("; it can into ", fewer > 0 ? std::to_string(fewer) : "",
               fewer > 0 && more > 0 ? " or " : "", more > 0 ? std::to_string(more) : "");
  }
  Problem changed = problem;
  changed.devices = fewer;
  if (fewer > 0) {
    try_remedy(infeasible.remedies, changed, cuts, quality,
               concat("--devices ", fewer, " (now ", devices, ")"));
  }
  changed = problem;
  changed.straight = false;
  try_remedy(infeasible.remedies, changed, cuts, quality, "without --straight");
  return infeasible;
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
    if (result.interrupted) break;
    const std::vector<std::vector<int>> all = cuts(stages);
    result.interrupted = control.stop.stop_requested();
    for (const std::vector<int>& cut : all) {
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
      result.infeasible = no_cuts(problem, devices, name, cuts, quality);
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
