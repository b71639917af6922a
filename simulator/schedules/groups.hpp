// Groups of microbatches that a device takes through one of its stages after the other. Internal to
// simulator/schedules/.

#pragma once

#include <string_view>
#include <vector>

#include "simulator/values/schedule.hpp"

namespace stagecraft {

/// The shape's group, or as many microbatches as devices. Throws Error (usage) with the nearest
/// legal microbatches and group unless devices <= group <= microbatches and the last group is empty
/// or has at least `devices` microbatches, too.
int group_of(std::string_view schedule, const ScheduleShape& shape);

/// One of a device's stages and a microbatch.
struct Turn {
  int local_stage = 0;  ///< on stage local_stage * devices + device
  int microbatch = 0;
};

/// Every pair of a device's stage and a microbatch, in the order forwards take them, group by
/// group.
std::vector<Turn> forward_turns(const ScheduleShape& shape, int group);
/// The order of backwards: the stages of each group reversed.
std::vector<Turn> backward_turns(const ScheduleShape& shape, int group);

Instruction instruction_of(Op op, const Turn& turn, const ScheduleShape& shape, int device);

}  // namespace stagecraft
