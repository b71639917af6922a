// What all stages of a plan recompute, by one word: none, selective (each block its attention),
// blocks (each block all of itself, by itself) or full (each stage as a whole).

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// All stages recompute what the word says.
void recompute_all(std::string_view what, const Model& model, std::vector<Stage>& stages);

/// The word for what all stages of a plan recompute; nothing where they differ, or where no word
/// makes what they do. The model is in the plan's order.
std::optional<std::string_view> recompute_of_all(const Plan& plan, const Model& model);

}  // namespace stagecraft
