#include "planner/baselines/compatibility.hpp"

#include <algorithm>

#include "planner/problem/incumbents.hpp"
#include "planner/space/space.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// Stages on the devices of the first one.
int visits_in(const std::vector<ForeignStage>& stages) {
  if (stages.empty() || stages.front().devices.empty()) return 1;
  const auto& first = stages.front().devices;
  return static_cast<int>(std::ranges::count(stages, first, &ForeignStage::devices));
}

/// Whether the setting's schedule has so many stages on each device, and those that are named.
bool comes_back_as(const Setting& setting, const std::vector<ForeignStage>& stages, int visits) {
  if (setting.schedule.virtual_stages != visits) return false;
  const int devices = static_cast<int>(stages.size()) / visits;
  for (int stage = devices; stage < static_cast<int>(stages.size()); ++stage) {
    const int first = setting.device_of(stage, devices);
    if (stages[static_cast<std::size_t>(stage)].devices !=
        stages[static_cast<std::size_t>(first)].devices)
      return false;
  }
  return true;
}

Layout layout_of(const std::vector<ForeignStage>& stages, int visits) {
  Layout layout;
  layout.cuts = {0};
  for (const ForeignStage& stage : stages) {
    if (layout.replicas.size() < stages.size() / static_cast<std::size_t>(visits))
      layout.replicas.push_back(stage.replicas);
    layout.cuts.push_back(layout.cuts.back() + static_cast<int>(stage.layers.size()));
    layout.recompute.push_back(stage.recompute);
  }
  return layout;
}

/// As asked for, where there is no choice.
void set_recompute(Plan& plan, const Problem& problem) {
  if (problem.recompute.size() != 1) return;
  for (Stage& stage : plan.stages) stage.recompute = problem.recompute.front();
}

}  // namespace

bool runs_better(const Candidate& a, const Candidate& b) {
  if (!a.prediction || !b.prediction) return a.prediction.has_value();
  if (a.prediction->fits != b.prediction->fits) return a.prediction->fits;
  return pace(*a.prediction) < pace(*b.prediction);
}

Candidate adopt(const Problem& problem, std::string_view name,
                const std::vector<ForeignStage>& stages) {
  Candidate best{.name = std::string(name),
                 .plan = {},
                 .prediction = {},
                 .objective = {},
                 .rejected = "the schedules asked for need several stages per device"};
  const std::vector<int> order = layer_order(stages);
  Problem ordered = problem;
  if (!order.empty()) ordered.profile = reordered(problem.profile, order);
  ordered.tensor_parallel.resize(1);  // the stages bring their own degrees
  const Space space(ordered);
  const int visits = visits_in(stages);
  const Layout layout = layout_of(stages, visits);
  bool first = true;
  for (const Setting& setting : space.settings()) {
    if (!comes_back_as(setting, stages, visits) || !space.wants(setting, layout.replicas)) continue;
    Plan plan = space.plan(setting, layout);
    set_stages(plan, stages);
    set_recompute(plan, problem);
    const Candidate candidate = space.evaluate(std::string(name), plan);
    if (first || runs_better(candidate, best)) best = candidate;
    first = false;
  }
  return best;
}

SearchResult foreign_result(const Problem& problem, std::string_view name,
                            const std::vector<ForeignStage>& stages, const Objective& objective,
                            std::int64_t candidates) {
  return foreign_result(adopt(problem, name, stages), objective, candidates);
}

SearchResult foreign_result(Candidate candidate, const Objective& objective,
                            std::int64_t candidates) {
  candidate.objective = objective;
  SearchResult result;
  result.strategy = candidate.name;
  result.candidates = candidates;
  result.proved_optimal = objective.lower_bound >= objective.value;
  result.gap = objective.value > 0 ? 1 - std::min(objective.lower_bound / objective.value, 1.0) : 0;
  write_figures(candidate, result);
  result.plans.push_back(std::move(candidate));
  return result;
}

std::optional<Candidate> choice_of(const std::function<SearchResult()>& search) {
  try {
    SearchResult result = search();
    if (result.plans.empty()) return {};
    Candidate candidate = std::move(result.plans.front());
    candidate.objective.reset();
    candidate.plan.predicted.reset();
    candidate.plan.search.reset();
    return candidate;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace stagecraft
