// Checks of a shape that all schedule generators share. Internal to simulator/schedules/.

#pragma once

#include <string>
#include <string_view>

#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

/// Throws Error (usage) unless there are devices, microbatches and virtual stages, and no decode
/// steps where nothing is decoded.
void require_positive_counts(std::string_view schedule, const ScheduleShape& shape);
/// The checks for schedules with one model copy and whole sequences: also refuses pipes and
/// sequence chunks.
void require_counts(std::string_view schedule, const ScheduleShape& shape);

/// Each throws Error (usage) when the shape sets what this schedule has no use for: ignoring it
/// would hide a mistake.
void refuse_virtual_stages(std::string_view schedule, const ScheduleShape& shape,
                           std::string_view instead = "interleaved");
void refuse_group(std::string_view schedule, const ScheduleShape& shape);
void refuse_warm_up(std::string_view schedule, const ScheduleShape& shape);
/// Throws Error (usage) unless the warm-up, if there is one, lists each device, and does not grow
/// along the pipeline: device r + 1 asks for K(r + 1) forwards before its first backward, and
/// device r has sent only K(r) when it starts to wait for that backward.
void require_warm_up(std::string_view schedule, const ScheduleShape& shape);
void refuse_pipes(std::string_view schedule, const ScheduleShape& shape);
void refuse_sequence_chunks(std::string_view schedule, const ScheduleShape& shape);

void refuse_in_flight(std::string_view schedule, const ScheduleShape& shape,
                      std::string_view instead = "zb-auto");
/// The microbatches each device has memory for, or as many as devices. Throws Error (usage) if
/// there is none.
int require_in_flight(std::string_view schedule, const ScheduleShape& shape);
/// Throws Error (usage) for negative times or memory.
void require_hints(std::string_view schedule, const ScheduleShape& shape);
void require_two_virtual_stages(std::string_view schedule, const ScheduleShape& shape);

/// A schedule without instructions yet.
Schedule empty_schedule(std::string_view name, const ScheduleShape& shape,
                        StagePlacement placement = StagePlacement::loop);

}  // namespace stagecraft
