// Changes of the schedule and of its stages per device. For the sources of this folder.

#pragma once

#include <string>
#include <vector>

#include "planner/analysis/changes/shape.hpp"
#include "planner/analysis/changes/wishes.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft::what_if {

/// The plan's own where nothing is said. Throws Error (usage) for a name that is none.
const ScheduleKind& wished_schedule(const Wishes& wishes, const Plan& plan);

/// Stages per device of the schedule that is wished for; a note where that had to change.
int virtual_stages_for(const Wishes& wishes, const ScheduleKind& kind, const Plan& plan,
                       std::vector<std::string>& notes);

/// Where stages stand is asked before the plan is checked as a whole. Throws Error (input) with the
/// schedule's own sentence.
void require_takes(const ScheduleKind& kind, const Shape& shape, int microbatches);

/// Schedule and stages per device; the stages themselves stay.
void set_schedule(const ScheduleKind& kind, int virtual_stages, Plan& plan);

}  // namespace stagecraft::what_if
