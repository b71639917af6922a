#include "planner/search/heuristics/simulated_trials.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/layouts/layouts.hpp"
#include "planner/search/evaluator.hpp"
#include "planner/space/setting_kinds.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// Factor for schedules that are generated for given durations, which are found by a search of
/// their own.
constexpr std::int64_t times_longer_to_generate = 8;

}  // namespace

std::optional<SimulatedPlan> Trials::balanced_plan(const TrialStart& start) {
  const Setting& setting = start.setting;
  Layout layout = balanced(space_, setting, start.replicas);
  if (!is_allowed(space_, setting, layout)) return {};
  if (!has_room(setting, layout)) return {};
  const int stages = layout.stages();
  const auto with_first = [&](int count) {
    std::ranges::fill(layout.recompute, Recompute::none);
    std::fill_n(layout.recompute.begin(), count, Recompute::full);
    return simulate(setting, layout, few_microbatches(setting, layout));
  };
  int fewest = space_.allows(Recompute::none) ? 0 : stages;
  if (!with_first(fewest)) {
    if (!is_over_ || fewest == stages || !space_.allows(Recompute::full)) return {};
    if (!with_first(stages)) return {};
    for (int over = std::exchange(fewest, stages); fewest - over > 1;) {
      const int middle = (fewest + over) / 2;
      (with_first(middle) ? fewest : over) = middle;
    }
  }
  // With all microbatches, slightly more stages may have to recompute.
  for (; fewest <= stages; ++fewest) {
    std::ranges::fill(layout.recompute, Recompute::none);
    std::fill_n(layout.recompute.begin(), fewest, Recompute::full);
    std::optional<Candidate> plan = simulate(setting, layout, setting.microbatches);
    if (plan) return SimulatedPlan{setting, layout, *std::move(plan)};
    if (!is_over_ || !space_.allows(Recompute::full)) return {};
  }
  return {};
}

void Trials::improve(SimulatedPlan& found, const Effort& effort) {
  spread(found);
  const auto lasts = [&, start = account_.spent] {
    return account_.spent - start < effort.left && !effort.stop.stop_requested();
  };
  for (bool better = true; better && lasts();) {
    better = false;
    for (int stage = 0; stage < found.layout.stages() && lasts(); ++stage) {
      better = change_recomputation(found, stage) || better;
      if (stage > 0) better = move_cut(found, stage) || better;
    }
    for (int device = 0; device < found.layout.pipeline_devices() && lasts(); ++device) {
      better = move_device(found, device) || better;
    }
  }
}

bool Trials::has_room(const Setting& setting, const Layout& layout) {
  const int devices = layout.pipeline_devices();
  const bool both_ways = setting.placement == StagePlacement::bidirectional;
  const OptimizerChoice& optimizer = space_.problem().optimizer;
  Holders holders = space_.holders(setting, layout.replicas.front());
  if (both_ways) holders = {2 * holders.all, 2 * holders.experts};
  std::vector<Bytes> held(static_cast<std::size_t>(devices), 0);
  for (int stage = 0; stage < layout.stages(); ++stage) {
    const int device = setting.device_of(stage, devices);
    const LayerRange layers{layout.cuts[static_cast<std::size_t>(stage)],
                            layout.cuts[static_cast<std::size_t>(stage) + 1]};
    const ChunkMemory memory =
        memory_share(space_.whole_microbatch(setting, device * layout.replicas.front())
                         .memory(layers, optimizer.kind),
                     optimizer.sharding, holders);
    const Bytes bytes = memory.parameters + memory.gradients + memory.optimizer;
    held[static_cast<std::size_t>(device)] += bytes;
    if (both_ways) held[static_cast<std::size_t>(devices - 1 - device)] += bytes;
  }
  for (int device = 0; device < devices; ++device) {
    const DeviceKind& kind = space_.kind(setting, device * layout.replicas.front());
    if (kind.memory_unlimited) continue;
    const Bytes over = held[static_cast<std::size_t>(device)] - usable_memory(kind);
    if (over <= 0) continue;
    TrialAccount::fall_short(account_.short_by_states, over);
    return false;
  }
  return true;
}

int Trials::few_microbatches(const Setting& setting, const Layout& layout) {
  const bool in_turns = setting.replicas == ReplicaPolicy::round_robin;
  return in_turns ? setting.microbatches
                  : std::min(setting.microbatches, 4 * layout.pipeline_devices());
}

std::optional<Candidate> Trials::simulate(Setting setting, const Layout& layout, int microbatches) {
  setting.microbatches = microbatches;
  const ScheduleKind& kind = find_schedule(setting.schedule.name);
  const bool is_made = kind.generate == zb_auto || kind.generate == zbv_auto;
  const int parts = kind.generate == chimera_halving ? 2 : setting.schedule.sequence_chunks;
  account_.spent += steps_per_simulated_instruction * instructions_of(setting, layout) *
                    (is_made ? times_longer_to_generate : parts);
  Plan plan = space_.plan(setting, layout);
  plan.batch.global = plan.batch.microbatch * plan.batch.microbatches;
  Candidate candidate = space_.evaluate(std::string(name_of_searched), plan);
  is_over_ = candidate.prediction && !candidate.prediction->fits;
  if (!candidate.prediction) {
    account_.reject(candidate.rejected, layout.stages());
    return {};
  }
  ++account_.simulated;
  if (!is_over_) return candidate;
  TrialAccount::fall_short(account_.short_by, shortfall(*candidate.prediction));
  return {};
}

bool Trials::change_recomputation(SimulatedPlan& found, int stage) {
  Layout layout = found.layout;
  Recompute& choice = layout.recompute[static_cast<std::size_t>(stage)];
  choice = choice == Recompute::none ? Recompute::full : Recompute::none;
  return space_.allows(choice) && take(found, layout);
}

bool Trials::move_cut(SimulatedPlan& found, int stage) {
  bool better = false;
  for (const int by : {-3, 3, -1, 1}) {
    Layout layout = found.layout;
    layout.cuts[static_cast<std::size_t>(stage)] += by;
    better = take(found, layout) || better;
  }
  return better;
}

void Trials::spread(SimulatedPlan& found) {
  Setting spread = found.setting;
  spread.microbatch *= std::exchange(spread.columns, 1);
  spread.depth.reset();
  if (space_.devices(spread) > most_devices_walked || space_.most_replicas(spread) == 1) return;
  for (int& count : found.layout.replicas) count *= found.setting.columns;
  found.setting = spread;
}

bool Trials::move_device(SimulatedPlan& found, int from) {
  if (found.setting.depth || found.setting.columns > 1) return false;
  bool better = false;
  for (int to = 0; to < found.layout.pipeline_devices(); ++to) {
    Layout layout = found.layout;
    std::vector<int>& replicas = layout.replicas;
    const int used = std::accumulate(replicas.begin(), replicas.end(), 0);
    const bool is_new = to == from && used < space_.devices(found.setting);
    if (to == from && !is_new) continue;
    ++replicas[static_cast<std::size_t>(to)];
    if (!is_new && --replicas[static_cast<std::size_t>(from)] == 0) continue;
    better = take(found, layout) || better;
  }
  return better;
}

bool Trials::take(SimulatedPlan& found, const Layout& layout) {
  if (!is_allowed(space_, found.setting, layout)) return false;
  std::optional<Candidate> candidate = simulate(found.setting, layout, found.setting.microbatches);
  if (!candidate || pace(*candidate->prediction) >= step_of(found)) return false;
  found.layout = layout;
  found.candidate = *std::move(candidate);
  return true;
}

}  // namespace stagecraft
