#include "planner/analysis/changes/stages.hpp"

#include <algorithm>
#include <array>

#include "planner/analysis/changes/cuts.hpp"
#include "planner/analysis/changes/schedule.hpp"
#include "planner/analysis/changes/shape.hpp"
#include "planner/analysis/stage_recomputation.hpp"
#include "profiles/index.hpp"

namespace stagecraft::what_if {

namespace {

/// Whether the plan's stages stay where they are, whatever the schedule is called.
bool keeps_stages(const Wishes& wishes, bool balance, StagePlacement before, StagePlacement after,
                  const Plan& plan, int virtual_stages) {
  const bool has_degrees =
      std::ranges::any_of(std::array{"pp", "tp", "cp", "dp", "order", "layers"},
                          [&](auto key) { return wishes.has(key); });
  return !has_degrees && !balance && before == after &&
         virtual_stages == plan.schedule.virtual_stages;
}

/// Stages of these layers, on the devices of their ranks.
void set_cuts(const std::vector<int>& cuts, const DevicesByRank& devices, Plan& plan) {
  const StagePlacement placement = find_schedule(plan.schedule.name).placement;
  const int pipeline = static_cast<int>(devices.size());
  plan.stages.assign(cuts.size() - 1, {});
  for (int stage = 0; stage < static_cast<int>(plan.stages.size()); ++stage) {
    plan.stages[index(stage)] = {
        .layers = {cuts[index(stage)], cuts[index(stage) + 1]},
        .devices = devices[index(device_of_stage(placement, stage, pipeline))]};
  }
}

/// The first key that is wished for, with its value, for messages.
std::string first_wish(const Wishes& wishes) {
  return wishes.all().empty() ? "" : to_string({wishes.all().begin()->second});
}

/// As many samples per replica as before.
void keep_samples(const Shape& now, const Shape& shape, Plan& plan) {
  const std::int64_t samples = samples_per_replica(plan, now);
  if (plan.replicas != ReplicaPolicy::split) return;
  plan.batch.microbatch = samples * shape.data;
  if (plan.batch.global % plan.batch.microbatch == 0)
    plan.batch.microbatches = static_cast<int>(plan.batch.global / plan.batch.microbatch);
}

/// The cuts that are wished for, else those that there are, else new ones with a note.
std::vector<int> new_cuts(const std::optional<std::vector<int>>& wished, const Shape& now,
                          const Shape& shape, bool balance, ChangedPlan& changed) {
  if (wished) return *wished;
  std::vector<int> before = cuts_of(changed.loaded.plan);
  if (!balance && shape.stages() == now.stages()) return before;
  auto cuts = cuts_for(changed.loaded, shape, balance ? std::optional(before) : std::nullopt);
  changed.notes.push_back(
      concat("layers are cut anew, for ",
             balance ? "the shortest step: " : "equal time on every device: ", words_for(cuts)));
  return cuts;
}

/// What each stage recomputed before, it recomputes again.
void keep_recompute(const std::vector<Stage>& before, std::vector<Stage>& stages) {
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    stages[stage].recompute = before[stage].recompute;
    stages[stage].again = before[stage].again;
  }
}

/// Other degrees, or other stages.
void reshape(const Wishes& wishes, bool balance, const ScheduleKind& schedule, int virtual_stages,
             ChangedPlan& changed) {
  Plan& plan = changed.loaded.plan;
  const std::string what = first_wish(wishes);
  const Shape now = require_one_shape(plan, what);
  Shape shape = wished_shape(wishes, now, plan);
  shape.virtual_stages = virtual_stages;
  const Model& model = changed.loaded.profile.model;
  // More stages than layers is said of any schedule, where they are cut.
  if (shape.stages() <= static_cast<int>(model.layers.size()))
    require_takes(schedule, shape, plan.batch.microbatches);
  const auto recompute = recompute_of_all(plan, model);
  const auto wished = wished_cuts(wishes, model, shape.stages());
  const bool keeps_cuts =
      (!wished || *wished == cuts_of(plan)) && !balance && shape.stages() == now.stages();
  if (!keeps_cuts && !recompute && !wishes.has("recompute")) {
    fail("--set ", what,
         ": the plan's stages recompute differently, and would become other stages; ",
         "add --set recompute=none, selective, blocks or full for all of them");
  }
  const auto devices = wished_devices(wishes, now, shape, plan, changed.loaded.cluster);
  keep_samples(now, shape, plan);
  plan.parallelism.context = shape.context;
  set_schedule(schedule, virtual_stages, plan);
  const std::vector<int> cuts = new_cuts(wished, now, shape, balance, changed);
  const std::vector<Stage> before = plan.stages;
  set_cuts(cuts, devices, plan);
  if (keeps_cuts) return keep_recompute(before, plan.stages);
  recompute_all(recompute.value_or("none"), model, plan.stages);
}

}  // namespace

void set_stages(const Wishes& wishes, bool balance, ChangedPlan& changed) {
  Plan& plan = changed.loaded.plan;
  const ScheduleKind& before = find_schedule(plan.schedule.name);
  const ScheduleKind& after = wished_schedule(wishes, plan);
  const int virtual_stages = virtual_stages_for(wishes, after, plan, changed.notes);
  if (keeps_stages(wishes, balance, before.placement, after.placement, plan, virtual_stages)) {
    if (&before != &after) set_schedule(after, virtual_stages, plan);
    return;
  }
  reshape(wishes, balance, after, virtual_stages, changed);
}

}  // namespace stagecraft::what_if
