// The layers that `--fix` assigns to stages.

#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// Reads "stage0.layers=0..4" (the end is excluded), one text for each fixed stage; sorted by
/// stage. Throws Error (usage) if a text cannot be read, or if no cut of a model with `layers`
/// layers has all of these stages, with at least one layer in every other stage.
std::vector<FixedStage> read_fixed_stages(const std::vector<std::string>& texts, int layers);

}  // namespace stagecraft
