// What all schedule generators ask of their shape. Internal to simulator/schedules/.

#pragma once

#include <string_view>

#include "simulator/schedule.hpp"

namespace stagecraft {

/// Throws Error (usage) unless there are devices, microbatches and virtual stages.
void require_counts(std::string_view schedule, const ScheduleShape& shape);

/// Each throws Error (usage) when the shape sets what this schedule has no use for: ignoring it
/// would hide a mistake.
void refuse_virtual_stages(std::string_view schedule, const ScheduleShape& shape);
void refuse_group(std::string_view schedule, const ScheduleShape& shape);
void refuse_warm_up(std::string_view schedule, const ScheduleShape& shape);

/// A schedule without instructions yet, stage s on device s mod devices.
Schedule empty_schedule(std::string_view name, const ScheduleShape& shape);

}  // namespace stagecraft
