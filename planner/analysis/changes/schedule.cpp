#include "planner/analysis/changes/schedule.hpp"

#include <algorithm>

namespace stagecraft::what_if {

const ScheduleKind& wished_schedule(const Wishes& wishes, const Plan& plan) {
  const Change* change = wishes.find("schedule");
  return find_schedule(change == nullptr ? plan.schedule.name : change->value);
}

int virtual_stages_for(const Wishes& wishes, const ScheduleKind& kind, const Plan& plan,
                       std::vector<std::string>& notes) {
  if (const Change* change = wishes.find("vpp")) return small_number(*change);
  const int now = plan.schedule.virtual_stages;
  if (wishes.find("schedule") == nullptr || kind.name == plan.schedule.name) return now;
  int fitting = now;
  const int fewest = fewest_virtual_stages(kind.placement);
  if (kind.placement == StagePlacement::linear || kind.placement == StagePlacement::bidirectional)
    fitting = 1;
  if (kind.placement == StagePlacement::vee) fitting = 2;
  if (kind.placement == StagePlacement::loop || kind.placement == StagePlacement::wave)
    fitting = std::max({now, fewest, 2});
  if (fitting != now) {
    notes.push_back(concat(kind.name, " with ", fitting,
                           fitting == 1 ? " stage per device" : " stages per device",
                           "; --set vpp=N sets another number"));
  }
  return fitting;
}

void require_takes(const ScheduleKind& kind, const Shape& shape, int microbatches) {
  const int stages = shape.virtual_stages;
  const auto is_taken = [&] {
    switch (kind.placement) {
      case StagePlacement::linear:
      case StagePlacement::bidirectional: return stages == 1;
      case StagePlacement::vee: return stages == 2;
      case StagePlacement::loop:
      case StagePlacement::wave: return true;
    }
    return true;
  };
  if (is_taken()) return;
  try {
    kind.generate(
        {.devices = shape.pipeline, .microbatches = microbatches, .virtual_stages = stages});
  } catch (const Error& error) {
    fail("--set vpp=", stages, ": ", error.message());
  }
  fail("--set vpp=", stages, ": ", kind.name, " takes no such number of stages per device");
}

void set_schedule(const ScheduleKind& kind, int virtual_stages, Plan& plan) {
  if (kind.name != plan.schedule.name) {
    plan.schedule = {.name = std::string(kind.name),
                     .sequence_chunks = plan.schedule.sequence_chunks};
    plan.weights = kind.weights;
  }
  if (virtual_stages != plan.schedule.virtual_stages) plan.schedule.group.reset();
  plan.schedule.virtual_stages = virtual_stages;
  plan.schedule.warm_up.clear();
}

}  // namespace stagecraft::what_if
