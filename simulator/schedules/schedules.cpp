#include "simulator/schedules/schedules.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "profiles/text.hpp"

namespace stagecraft {

std::string_view to_string(StagePlacement placement) {
  switch (placement) {
    case StagePlacement::linear: return "linear";
    case StagePlacement::loop: return "loop";
    case StagePlacement::vee: return "vee";
    case StagePlacement::wave: return "wave";
    case StagePlacement::bidirectional: return "bidirectional";
  }
  return "";
}

int device_of_stage(StagePlacement placement, int stage, int devices) {
  switch (placement) {
    case StagePlacement::linear: return stage;
    case StagePlacement::loop: return stage % devices;
    case StagePlacement::vee: return stage < devices ? stage : 2 * devices - 1 - stage;
    case StagePlacement::wave:
      return device_of_stage(StagePlacement::vee, stage % (2 * devices), devices);
    case StagePlacement::bidirectional: return device_of_stage(StagePlacement::vee, stage, devices);
  }
  return stage;
}

int fewest_virtual_stages(StagePlacement placement) {
  switch (placement) {
    case StagePlacement::linear:
    case StagePlacement::loop:
    case StagePlacement::bidirectional: return 1;
    case StagePlacement::vee:
    case StagePlacement::wave: return 2;
  }
  return 1;
}

int usual_virtual_stages(const ScheduleKind& kind) {
  const int fewest = fewest_virtual_stages(kind.placement);
  return kind.placement == StagePlacement::loop ? std::max(fewest, 2) : fewest;
}

std::string weight_versions_in_words(const ScheduleKind& kind) {
  switch (kind.weights) {
    case WeightPolicy::stashing: return "p - r";
    case WeightPolicy::vertical_sync: return "p";
    case WeightPolicy::flush:
    case WeightPolicy::double_buffered: break;
  }
  return std::to_string(kind.weight_versions);
}

const ScheduleKind& find_schedule(std::string_view name) {
  for (const ScheduleKind& kind : schedule_kinds) {
    if (kind.name == name) return kind;
  }
  std::vector<std::string> known;
  for (const ScheduleKind& kind : schedule_kinds) known.emplace_back(kind.name);
  for (const ScheduleKind& kind : schedule_kinds) {
    for (const std::string& alias : split(kind.aliases, ' ')) {
      if (alias == name) return kind;
      known.push_back(alias);
    }
  }
  fail_unknown("schedule", name, known);
}

}  // namespace stagecraft
