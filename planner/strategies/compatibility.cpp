#include "planner/strategies/compatibility.hpp"

#include <algorithm>
#include <numeric>

#include "planner/leaderboard.hpp"
#include "planner/space.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// Layers stage by stage; inside a stage as the model has them. Empty for the model's own order.
std::vector<int> order_of(const std::vector<ForeignStage>& stages) {
  std::vector<int> order;
  for (const ForeignStage& stage : stages) {
    const auto first = order.insert(order.end(), stage.layers.begin(), stage.layers.end());
    std::sort(first, order.end());
  }
  if (std::is_sorted(order.begin(), order.end())) order.clear();
  return order;
}

Layout layout_of(const std::vector<ForeignStage>& stages) {
  Layout layout;
  layout.cuts = {0};
  for (const ForeignStage& stage : stages) {
    layout.replicas.push_back(stage.replicas);
    layout.cuts.push_back(layout.cuts.back() + static_cast<int>(stage.layers.size()));
    layout.recompute.push_back(stage.recompute);
  }
  return layout;
}

/// Replica r of a stage has the devices [r t, (r + 1) t) of the stage's list.
void place(Plan& plan, const std::vector<ForeignStage>& stages) {
  int next = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const ForeignStage& stage = stages[s];
    std::vector<int> devices = stage.devices;
    if (devices.empty()) {
      devices.resize(static_cast<std::size_t>(stage.replicas * stage.tensor_parallel));
      std::iota(devices.begin(), devices.end(), next);
      next += static_cast<int>(devices.size());
    }
    plan.stages[s].devices.clear();
    for (int replica = 0; replica < stage.replicas; ++replica) {
      const auto first = devices.begin() + replica * stage.tensor_parallel;
      plan.stages[s].devices.emplace_back(first, first + stage.tensor_parallel);
    }
  }
}

bool is_preferred(const Candidate& a, const Candidate& b) {
  if (!a.prediction || !b.prediction) return a.prediction.has_value();
  if (a.prediction->fits != b.prediction->fits) return a.prediction->fits;
  return a.prediction->step < b.prediction->step;
}

}  // namespace

Candidate adopt(const Problem& problem, std::string_view name,
                const std::vector<ForeignStage>& stages) {
  Candidate best{.name = std::string(name),
                 .plan = {},
                 .prediction = {},
                 .objective = {},
                 .rejected = "the schedules asked for need several stages per device"};
  const std::vector<int> order = order_of(stages);
  Problem ordered = problem;
  if (!order.empty()) ordered.profile = reordered(problem.profile, order);
  ordered.tensor_parallel.resize(1);  // the stages bring their own degrees
  const Space space(ordered);
  const Layout layout = layout_of(stages);
  bool first = true;
  for (const Setting& setting : space.settings()) {
    if (setting.schedule.virtual_stages != 1 || !space.wants(setting, layout.replicas)) continue;
    Plan plan = space.plan(setting, layout);
    plan.order = order;
    place(plan, stages);
    const Candidate candidate = space.evaluate(std::string(name), plan);
    if (first || is_preferred(candidate, best)) best = candidate;
    first = false;
  }
  return best;
}

SearchResult foreign_result(const Problem& problem, std::string_view name,
                            const std::vector<ForeignStage>& stages, const Objective& objective,
                            std::int64_t candidates) {
  Candidate candidate = adopt(problem, name, stages);
  candidate.objective = objective;
  SearchResult result;
  result.strategy = std::string(name);
  result.candidates = candidates;
  result.proved_optimal = objective.lower_bound >= objective.value;
  result.gap = objective.value > 0 ? 1 - std::min(objective.lower_bound / objective.value, 1.0) : 0;
  write_figures(candidate, result);
  result.plans.push_back(std::move(candidate));
  return result;
}

}  // namespace stagecraft
