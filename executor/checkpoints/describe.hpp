// The description of a training in its checkpoints.

#pragma once

#include "executor/checkpoints/checkpoint.hpp"
#include "executor/training/training.hpp"

namespace stagecraft {

/// The checkpoint's description, without the position and the weights' values.
Checkpoint describe(const Training& training);

/// The position of a training after `steps` steps of this run.
TrainingPosition position_after(const Training& training, int steps);

}  // namespace stagecraft
