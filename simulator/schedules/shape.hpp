// What all schedule generators ask of their shape. Internal to simulator/schedules/.

#pragma once

#include <string>
#include <string_view>

#include "simulator/schedules.hpp"

namespace stagecraft {

/// Throws Error (usage) unless there are devices, microbatches and virtual stages, and no decode
/// steps where nothing is decoded.
void require_positive_counts(std::string_view schedule, const ScheduleShape& shape);
/// The same for schedules of one copy of the model and whole sequences: also refuses pipes and
/// sequence chunks.
void require_counts(std::string_view schedule, const ScheduleShape& shape);

/// Each throws Error (usage) when the shape sets what this schedule has no use for: ignoring it
/// would hide a mistake.
void refuse_virtual_stages(std::string_view schedule, const ScheduleShape& shape,
                           std::string_view instead = "interleaved");
void refuse_group(std::string_view schedule, const ScheduleShape& shape);
void refuse_warm_up(std::string_view schedule, const ScheduleShape& shape);
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

/// "8 or 12": the multiples of `factor` next to a number that is none; one, below the first.
std::string nearest_multiples(int number, int factor);

/// A schedule without instructions yet.
Schedule empty_schedule(std::string_view name, const ScheduleShape& shape,
                        StagePlacement placement = StagePlacement::loop);

}  // namespace stagecraft
