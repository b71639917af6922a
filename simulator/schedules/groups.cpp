#include "simulator/schedules/groups.hpp"

#include <algorithm>
#include <string>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

bool fits(int devices, int microbatches, int group) {
  if (group < devices || group > microbatches) return false;
  const int rest = microbatches % group;
  return rest == 0 || rest >= devices;
}

std::string nearest_microbatches(int devices, int microbatches, int group) {
  int below = microbatches;
  while (below > 0 && !fits(devices, below, group)) --below;
  int above = microbatches;
  while (!fits(devices, above, group)) ++above;
  return below > 0 ? concat(below, " or ", above) : concat(above);
}

/// Empty when no group fits this many microbatches.
std::string nearest_group(int devices, int microbatches, int group) {
  for (int distance = 0; distance <= microbatches + group; ++distance) {
    if (fits(devices, microbatches, group - distance)) return concat(group - distance);
    if (fits(devices, microbatches, group + distance)) return concat(group + distance);
  }
  return "";
}

}  // namespace

int group_of(std::string_view schedule, const ScheduleShape& shape) {
  const auto [devices, microbatches] = std::pair(shape.devices, shape.microbatches);
  const int group = shape.group.value_or(devices);
  if (fits(devices, microbatches, group)) return group;
  std::string advice;
  if (group >= devices) {
    advice += concat("; nearest legal microbatches for this group: ",
                     nearest_microbatches(devices, microbatches, group));
  }
  const std::string other = nearest_group(devices, microbatches, group);
  if (!other.empty()) {
    advice += concat("; nearest legal group for ", microbatches, " microbatches: ", other);
  }
  fail_usage(schedule,
             ": needs devices <= group <= microbatches, and microbatches mod group 0 or "
             "at least devices, but there are ",
             devices, " devices, a group of ", group, " and ", microbatches, " microbatches",
             advice);
}

std::vector<Turn> forward_turns(const ScheduleShape& shape, int group) {
  std::vector<Turn> turns;
  for (int first = 0; first < shape.microbatches; first += group) {
    const int end = std::min(first + group, shape.microbatches);
    for (int local = 0; local < shape.virtual_stages; ++local) {
      for (int m = first; m < end; ++m) turns.push_back({local, m});
    }
  }
  return turns;
}

std::vector<Turn> backward_turns(const ScheduleShape& shape, int group) {
  std::vector<Turn> turns = forward_turns(shape, group);
  for (Turn& turn : turns) turn.local_stage = shape.virtual_stages - 1 - turn.local_stage;
  return turns;
}

Instruction instruction_of(Op op, const Turn& turn, const ScheduleShape& shape, int device) {
  return {op, turn.local_stage * shape.devices + device, turn.microbatch};
}

}  // namespace stagecraft
