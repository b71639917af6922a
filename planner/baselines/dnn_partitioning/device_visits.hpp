// Parts that are not contiguous as stages: a pipeline comes back to a device for what could not be
// done before.

#pragma once

#include <vector>

#include "planner/plan/foreign_stage.hpp"
#include "planner/space/downsets.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

/// Stages of the parts' layers, each reading from itself and those before it, for a schedule of
/// this placement with so many stages on each device: a part is what one device has, and none of
/// its stages is empty. Devices are numbered in the order in which the pipeline first comes to
/// them. Empty if none of the orders tried (all of up to six devices) makes such stages; a stage
/// has all that can be done by then, and gives up some of it where a later one would be empty.
std::vector<ForeignStage> visits_of(const Dag& dag, const std::vector<std::vector<int>>& parts,
                                    StagePlacement placement, int visits);

}  // namespace stagecraft
