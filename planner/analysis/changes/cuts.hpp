// Which layers form each stage: as they are, as they are wished for, and anew for another number of
// stages. A cut is the layer that a stage begins with; the last one is the number of layers. For
// the sources of this folder.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/analysis/changes/shape.hpp"
#include "planner/analysis/changes/wishes.hpp"
#include "planner/interop/load_plan.hpp"

namespace stagecraft::what_if {

std::vector<int> cuts_of(const Plan& plan);

/// The cuts that `layers` asks for; nothing where it is not said, or says balanced. Throws Error
/// (usage) for what is no such word, (input) where the model has no such stages.
std::optional<std::vector<int>> wished_cuts(const Wishes& wishes, const Model& model, int stages);

/// The layers of each stage, for equal time on every device; with `now`, the cuts that there are,
/// moved one by one while that shortens the step, and to where they fit. The plan has its new
/// schedule. Throws Error (input) where there are more stages than layers.
std::vector<int> cuts_for(const LoadedPlan& loaded, const Shape& shape,
                          const std::optional<std::vector<int>>& now);

/// "12 12 12 10": layers of the first stages.
std::string words_for(const std::vector<int>& cuts);

}  // namespace stagecraft::what_if
