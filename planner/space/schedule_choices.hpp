// The schedules that a search tries, with the numbers of virtual stages per device to try.

#pragma once

#include <string_view>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Whether plans under this schedule are searched by simulation alone: the fast clock does not
/// support bidirectional pipelines, overlapped pairs of passes, split microbatches, lent
/// activations, or orders generated for given durations.
bool is_only_simulated(const ScheduleChoice& choice);
/// Whether the schedule's passes cover parts of a microbatch.
bool cuts_microbatches(const ScheduleChoice& choice);

/// The choices for a schedule's name. Throws Error (usage) for an unknown name.
std::vector<ScheduleChoice> schedule_choices(std::string_view name);
/// Schedules for training with a flush and one copy of the weights.
std::vector<ScheduleChoice> all_schedule_choices();
/// Further schedules of this kind that take long to search on many devices, where they are rarely
/// the best.
std::vector<ScheduleChoice> rarer_schedule_choices();
/// The interleaved schedule with more virtual stages than the default search tries; recipes use six
/// and eight.
std::vector<ScheduleChoice> finer_schedule_choices();
/// The default: `all_schedule_choices`, and on up to 64 devices `rarer_schedule_choices` as well.
std::vector<ScheduleChoice> usual_schedule_choices(const Problem& problem);
/// The choices that every framework has, GPipe and 1F1B, for which other planners plan. If there
/// are none of these, all that the fast clock supports; else 1F1B.
std::vector<ScheduleChoice> plain_choices(std::vector<ScheduleChoice> choices);

}  // namespace stagecraft
