// Schedules that a search tries, each with the numbers of stages per device worth trying.

#pragma once

#include <string_view>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Whether plans under it are only simulated: no fast clock knows several copies of the model,
/// pairs of passes, parts of microbatches, what is lent, or orders made for durations.
bool is_only_simulated(const ScheduleChoice& choice);
/// Whether its passes are about parts of a microbatch.
bool cuts_microbatches(const ScheduleChoice& choice);

/// Throws Error (usage) for a name that no schedule has.
std::vector<ScheduleChoice> schedule_choices(std::string_view name);
/// Those of training with a flush that keep one copy of the weights.
std::vector<ScheduleChoice> all_schedule_choices();
/// And those of this kind that take long to search on many devices, where they are rarely the best.
std::vector<ScheduleChoice> rarer_schedule_choices();
/// Interleaved, with more stages per device than are worth trying in every question: recipes have
/// six and eight.
std::vector<ScheduleChoice> finer_schedule_choices();
/// Where nobody says: all of the first kind, and on up to 64 devices those of the second.
std::vector<ScheduleChoice> usual_schedule_choices(const Problem& problem);
/// Of these the ones that every framework has, GPipe and 1F1B: what other planners plan for, and
/// what people choose. Where there is none of them all that are not only simulated, or 1F1B.
std::vector<ScheduleChoice> plain_choices(std::vector<ScheduleChoice> choices);

}  // namespace stagecraft
