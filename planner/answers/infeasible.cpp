// Why nothing fits, and what would. Nothing is guessed: the closest plan is found by adding memory
// to every device until some plan fits, and a remedy is named only if a plan that fits was found
// with it.

#include <algorithm>
#include <functional>
#include <limits>

#include "planner/answers/remedies.hpp"
#include "planner/layouts/layouts.hpp"
#include "planner/searches/column_search.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

Problem with_more_memory(Problem problem, Bytes more) {
  for (DeviceKind& kind : problem.cluster.kinds) {
    if (kind.memory_unlimited) continue;
    // The fraction that may be used applies to all of it.
    kind.memory += static_cast<Bytes>(static_cast<double>(more) / problem.memory_fraction) + 1;
  }
  return problem;
}

/// The same of columns, among the deepest pipelines, which hold least per device.
std::optional<Candidate> look_for_columns(const Space& space, const Setting& setting,
                                          Judge& judge) {
  constexpr std::size_t most_tried = 2;
  std::vector<Setting> columns = space.columns(setting);
  std::stable_sort(columns.begin(), columns.end(),
                   [](const Setting& a, const Setting& b) { return *a.depth > *b.depth; });
  columns.resize(std::min(columns.size(), most_tried));
  for (const Setting& column : columns) {
    FastClock clock(space, column);
    const std::vector<int> replicas(static_cast<std::size_t>(*column.depth), 1);
    if (clock.order_for(replicas) == nullptr) continue;
    const Layout layout = balanced(space, column, replicas);
    const auto fitting = recomputed_to_fit(clock, space, column, layout);
    if (!is_allowed(space, column, layout)) continue;
    judge.consider_once(clock, column, fitting.value_or(layout));
    if (judge.board().best()) return judge.board().take().front();
  }
  return {};
}

/// A plan of this setting that fits, if a short look finds one.
std::optional<Candidate> look_for_plan(const Space& space, const Setting& setting, Judge& judge) {
  if (has_many_devices(space, setting)) return look_for_columns(space, setting, judge);
  FastClock clock(space, setting);
  std::vector<Layout> layouts = usual_layouts(space, setting, clock);
  if (has_chain_bounds(setting)) {
    ChainBounds bounds(space, setting);
    bounds.probe(never - 1);
    for (int stages = 1; stages <= bounds.most_stages(); ++stages) {
      if (bounds.is_open(stages)) layouts.push_back(bounds.best_chain(stages));
    }
  }
  for (const Layout& layout : layouts) {
    if (!is_allowed(space, setting, layout)) continue;
    judge.consider(clock, setting, layout, never);
    if (judge.board().best()) return judge.board().take().front();
  }
  return {};
}

}  // namespace

std::optional<Candidate> find_plan(const Problem& problem) {
  try {
    const Space space(problem);
    const SearchControl control;
    Judge judge(space, control);
    judge.effort().left = std::numeric_limits<std::int64_t>::max() / 2;
    for (const Setting& setting : space.settings()) {
      if (auto candidate = look_for_plan(space, setting, judge)) return candidate;
    }
  } catch (const Error&) {
    // No costs for this problem: then it has no plan either.
  }
  return {};
}

Problem smallest(Problem problem) {
  if (problem.microbatches.empty()) return problem;
  const auto least = *std::min_element(problem.microbatches.begin(), problem.microbatches.end());
  problem.microbatches = {least};
  return problem;
}

namespace {

/// The plan that fits with the least additional memory, within a percent.
std::optional<Candidate> closest_plan(const Problem& asked) {
  const Problem problem = smallest(asked);
  Bytes too_little = 0;
  Bytes enough = Bytes{1} << 20;
  std::optional<Candidate> closest;
  while (!(closest = find_plan(with_more_memory(problem, enough)))) {
    too_little = enough;
    enough *= 2;
    if (enough > (Bytes{1} << 48)) return {};
  }
  while (enough - too_little > std::max<Bytes>(enough / 128, 1)) {
    const Bytes middle = too_little + (enough - too_little) / 2;
    if (auto candidate = find_plan(with_more_memory(problem, middle))) {
      closest = std::move(candidate);
      enough = middle;
    } else {
      too_little = middle;
    }
  }
  return closest;
}

/// The program device that exceeds its limit the most.
std::size_t fullest_device(const Prediction& prediction) {
  std::size_t fullest = 0;
  const auto excess = [&](std::size_t d) {
    return prediction.peaks[d].bytes - prediction.memory_limits[d];
  };
  for (std::size_t d = 1; d < prediction.peaks.size(); ++d) {
    if (excess(d) > excess(fullest)) fullest = d;
  }
  return fullest;
}

std::vector<int> stages_on(const Plan& plan, int device) {
  std::vector<int> stages;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const auto& peers : plan.stages[s].devices) {
      if (peers.front() == device) stages.push_back(static_cast<int>(s));
    }
  }
  return stages;
}

/// "stage 0 needs", "stages 0, 2 and 4 need".
std::string who_needs(const std::vector<int>& stages) {
  if (stages.size() == 1) return concat("stage ", stages.front(), " needs ");
  std::string who = "stages ";
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const char* separator = i + 1 < stages.size() ? ", " : " and ";
    who += concat(i == 0 ? "" : separator, stages[i]);
  }
  return who + " need ";
}

std::string memory_reason(const Candidate& closest) {
  const Prediction& prediction = *closest.prediction;
  const std::size_t fullest = fullest_device(prediction);
  const int device = lead_devices(closest.plan)[fullest];
  const std::vector<int> stages = stages_on(closest.plan, device);
  bool recomputes = true;
  for (const int stage : stages) {
    const auto& what = closest.plan.stages[static_cast<std::size_t>(stage)];
    recomputes = recomputes && what.recompute == Recompute::full;
  }
  return concat("nothing fits: ", who_needs(stages), format_bytes(prediction.peaks[fullest].bytes),
                " of ", format_bytes(prediction.memory_limits[fullest]),
                recomputes ? " with every layer recomputed" : "");
}

/// Nothing has the shape that was asked for.
std::string shape_reason(const Space& space) {
  const std::string none = "no plan has the shape asked for";
  if (space.settings().empty()) return none + ": there is no microbatch size or schedule to try";
  const Setting& setting = space.settings().front();
  const int stages = setting.schedule.virtual_stages;
  const int needed = space.has_empty_stages() ? std::min(stages, 2)
                                              : stages * space.problem().min_layers_per_stage;
  if (space.layers() < needed) {
    return concat(none, ": ", space.layers(), " layers are fewer than the ", needed,
                  " that a single device's stages must hold");
  }
  return space.refusal().empty() ? none : concat(none, ": ", space.refusal());
}

}  // namespace

Infeasible explain_infeasible(const Problem& problem, const Space& space) {
  Infeasible infeasible;
  std::optional<Candidate> closest = closest_plan(problem);
  if (!closest) {
    infeasible.reason = shape_reason(space);
    infeasible.remedies = verified_remedies(problem, {});
    return infeasible;
  }
  // The same plan against the memory there is.
  closest = space.evaluate("closest", closest->plan);
  infeasible.reason = memory_reason(*closest);
  infeasible.short_by = std::max<Bytes>(shortfall(*closest->prediction), 0);
  infeasible.remedies = verified_remedies(problem, closest);
  return infeasible;
}

}  // namespace stagecraft
