// Why nothing fits, and what would. Nothing is guessed: the closest plan is found by adding memory
// to every device until some plan fits, and a remedy is named only if a plan that fits was found
// with it.

#include <algorithm>
#include <functional>
#include <limits>

#include "planner/walk.hpp"
#include "profiles/error.hpp"
#include "simulator/schedules.hpp"

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

/// A plan of this setting that fits, if a short look finds one.
std::optional<Candidate> look_for_plan(const Space& space, const Setting& setting, Judge& judge) {
  FastClock clock(space, setting);
  std::vector<Layout> layouts = usual_layouts(space, setting, clock);
  const auto generate = find_schedule(setting.schedule.name).generate;
  if (setting.schedule.virtual_stages == 1 && (generate == gpipe || generate == one_f_one_b)) {
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

/// The question with the least memory per device: the smallest microbatch only.
Problem smallest(Problem problem) {
  if (problem.microbatches.empty()) return problem;
  const auto least = *std::min_element(problem.microbatches.begin(), problem.microbatches.end());
  problem.microbatches = {least};
  return problem;
}

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

std::string memory_reason(const Candidate& closest) {
  const Prediction& prediction = *closest.prediction;
  const std::size_t fullest = fullest_device(prediction);
  const int device = lead_devices(closest.plan)[fullest];
  std::string who;
  bool recomputes = true;
  for (const int stage : stages_on(closest.plan, device)) {
    who += concat(who.empty() ? "stage " : " and ", stage);
    const auto& what = closest.plan.stages[static_cast<std::size_t>(stage)];
    recomputes = recomputes && what.recompute == Recompute::full;
  }
  return concat("nothing fits: ", who,
                who.find(" and ") == std::string::npos ? " needs " : " need ",
                format_bytes(prediction.peaks[fullest].bytes), " of ",
                format_bytes(prediction.memory_limits[fullest]),
                recomputes ? " with every layer recomputed" : "");
}

using Remedies = std::vector<std::string>;

void try_remedy(Remedies& remedies, const Problem& changed, const std::string& words) {
  if (find_plan(changed)) remedies.push_back(words);
}

void try_smaller_microbatch(Remedies& remedies, const Problem& problem) {
  const std::int64_t now = smallest(problem).microbatches.front();
  for (std::int64_t size = now / 2; size >= 1; size /= 2) {
    if (problem.global_batch % size != 0) continue;
    Problem changed = problem;
    changed.microbatches = {size};
    if (!find_plan(changed)) continue;
    remedies.push_back(concat("--microbatch ", size, " (now ", now, ")"));
    return;
  }
}

void try_recomputation(Remedies& remedies, const Problem& problem) {
  const auto& allowed = problem.recompute;
  if (std::find(allowed.begin(), allowed.end(), Recompute::full) != allowed.end()) return;
  Problem changed = problem;
  changed.recompute = {Recompute::none, Recompute::full};
  try_remedy(remedies, changed, "--recompute auto");
}

void try_more_devices(Remedies& remedies, const Problem& problem) {
  const int available = device_count(problem.cluster);
  const int now = std::min(problem.devices.value_or(available), available);
  for (int count = now + 1; count <= available; ++count) {
    Problem changed = problem;
    changed.devices = count;
    if (!find_plan(changed)) continue;
    remedies.push_back(concat("--devices ", count, " (now ", now, ")"));
    return;
  }
}

void try_other_schedule(Remedies& remedies, const Problem& problem) {
  Problem changed = problem;
  changed.schedules = {ScheduleChoice{}};
  if (problem.schedules == changed.schedules) return;
  try_remedy(remedies, changed, "--schedule 1f1b");
}

void try_sharding(Remedies& remedies, const Problem& problem) {
  if (problem.optimizer.sharding == Sharding::zero1) return;
  Problem changed = problem;
  changed.optimizer.sharding = Sharding::zero1;
  try_remedy(remedies, changed, "--sharding zero1");
}

void try_sgd(Remedies& remedies, const Problem& problem) {
  if (problem.optimizer.kind == OptimizerKind::sgd) return;
  Problem changed = problem;
  changed.optimizer.kind = OptimizerKind::sgd;
  try_remedy(remedies, changed, "--optimizer sgd");
}

void try_fewer_demands(Remedies& remedies, const Problem& problem) {
  Problem changed = problem;
  changed.max_stages.reset();
  if (problem.max_stages) try_remedy(remedies, changed, "without --max-stages");
  changed = problem;
  changed.straight = false;
  if (problem.straight) try_remedy(remedies, changed, "without --straight");
  changed = problem;
  changed.fixed.clear();
  if (!problem.fixed.empty()) try_remedy(remedies, changed, "without --fix");
  changed = problem;
  changed.min_layers_per_stage = 1;
  if (problem.min_layers_per_stage > 1) {
    try_remedy(remedies, changed, "without --min-layers-per-stage");
  }
}

void try_all_memory(Remedies& remedies, const Problem& problem) {
  if (problem.memory_fraction >= 1) return;
  Problem changed = problem;
  changed.memory_fraction = 1;
  try_remedy(remedies, changed, "--mem-limit 100%");
}

/// As much as the closest plan needs, in whole units.
void try_more_memory(Remedies& remedies, const Problem& problem, const Candidate& closest) {
  Bytes most = 0;
  for (const MemoryPeak& peak : closest.prediction->peaks) most = std::max(most, peak.bytes);
  const Bytes gibibyte = Bytes{1} << 30;
  const Bytes unit = most >= 8 * gibibyte ? gibibyte : gibibyte >> 10;
  const Bytes whole =
      (static_cast<Bytes>(static_cast<double>(most) / problem.memory_fraction) + unit) / unit *
      unit;
  Problem changed = problem;
  for (DeviceKind& kind : changed.cluster.kinds) kind.memory = std::max(kind.memory, whole);
  try_remedy(remedies, changed, concat("--memory ", exact_bytes(whole)));
}

Remedies verified_remedies(const Problem& problem, const std::optional<Candidate>& closest) {
  Remedies remedies;
  if (!problem.microbatches.empty()) try_smaller_microbatch(remedies, problem);
  try_recomputation(remedies, problem);
  try_more_devices(remedies, problem);
  try_other_schedule(remedies, problem);
  try_fewer_demands(remedies, problem);
  try_all_memory(remedies, problem);
  try_sharding(remedies, problem);
  try_sgd(remedies, problem);
  if (closest) try_more_memory(remedies, problem, *closest);
  return remedies;
}

/// Nothing has the shape that was asked for.
std::string shape_reason(const Space& space) {
  const std::string none = "no plan has the shape asked for";
  if (space.settings().empty()) return none + ": there is no microbatch size or schedule to try";
  const Setting& setting = space.settings().front();
  const int needed =
      setting.schedule.virtual_stages * std::max(space.problem().min_layers_per_stage, 1);
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
