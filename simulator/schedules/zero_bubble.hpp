// The zero-bubble pattern that ZB-H1, ZB-H2 and interleaved-zb share. Internal to
// simulator/schedules/.

#pragma once

#include <vector>

#include "simulator/values/schedule.hpp"

namespace stagecraft {

/// `warm_up` of the forwards; then an input gradient and the next forward in turn, until both are
/// used up. A weight gradient follows as soon as more than `lag` of them wait; the rest come last.
/// `forwards` and `inputs` are the device's F and I in order; each W takes the place of its I.
std::vector<Instruction> zero_bubble_order(const std::vector<Instruction>& forwards,
                                           const std::vector<Instruction>& inputs, int warm_up,
                                           int lag);

/// The order of a device that holds one stage.
std::vector<Instruction> zero_bubble_order(int stage, int microbatches, int warm_up, int lag);

}  // namespace stagecraft
