// The edits of one plan that are worth a try. For the sources of this folder.

#pragma once

#include <vector>

#include "planner/analysis/advice/change_sets.hpp"
#include "planner/interop/load_plan.hpp"
#include "planner/targets/targets.hpp"

namespace stagecraft::advising {

/// Single edits, each with what has to change along. Schedules are those that the target has; null:
/// all. Some are impossible, which shows when they are made.
std::vector<ChangeSet> edits_to_try(const LoadedPlan& loaded, const Target* target);

}  // namespace stagecraft::advising
