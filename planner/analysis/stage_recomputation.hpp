// Recomputation of all stages of a plan by one word: none, selective (attention of each block),
// blocks (each block as a whole, one at a time) or full (each stage as a whole).

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// Sets the recomputation of all stages by this word.
void recompute_all(std::string_view what, const Model& model, std::vector<Stage>& stages);

/// The word for the recomputation of all stages; nothing if they differ or if no word applies. The
/// model must be in the plan's order.
std::optional<std::string_view> recompute_of_all(const Plan& plan, const Model& model);

}  // namespace stagecraft
