#include "simulator/schedules.hpp"

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
  }
  return "";
}

const ScheduleKind& find_schedule(std::string_view name) {
  std::vector<std::string> known;
  for (const ScheduleKind& kind : schedule_kinds) {
    if (kind.name == name) return kind;
    known.emplace_back(kind.name);
  }
  for (const ScheduleKind& kind : schedule_kinds) {
    for (const std::string& alias : split(kind.aliases, ' ')) {
      if (alias == name) return kind;
      known.push_back(alias);
    }
  }
  fail_unknown("schedule", name, known);
}

}  // namespace stagecraft
