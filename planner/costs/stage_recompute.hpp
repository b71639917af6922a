// What a stage does again, in words, and whether it says so layer by layer.

#pragma once

#include <string>

#include "planner/plan.hpp"

namespace stagecraft {

/// Layers of the stage that do this again by themselves.
int layers_again(const Stage& stage, Recomputed what);

/// "none", "full" (the stage as a whole), "selective" (every layer), "3 of 10 layers",
/// "2 of 10 layers selective", "3 of 10 layers + 2 selective".
std::string recompute_in_words(const Stage& stage);

}  // namespace stagecraft
