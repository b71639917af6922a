// What `--fix` says: which layers some stages shall hold.

#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// "stage0.layers=0..4", the end not included, as often as there are stages to fix; by stage.
/// Throws Error (usage) where one cannot be read, or no cut of a model of so many layers has them
/// all: every stage before, between and behind them holds a layer at least.
std::vector<FixedStage> read_fixed_stages(const std::vector<std::string>& texts, int layers);

}  // namespace stagecraft
