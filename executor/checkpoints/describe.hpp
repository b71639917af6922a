// What a checkpoint says about the training it is of.

#pragma once

#include "executor/checkpoints/checkpoint.hpp"
#include "executor/training/training.hpp"

namespace stagecraft {

/// Everything but the position and the weights' values.
Checkpoint describe(const Training& training);

/// The position of a training after so many steps of this run.
TrainingPosition position_after(const Training& training, int steps);

}  // namespace stagecraft
