// Schedules side by side, each with the same room for activations.

#pragma once

#include <optional>

#include "tools/console.hpp"
#include "tools/options/scenario.hpp"

namespace stagecraft {

/// Prints a row per schedule, the fastest that fits first. Each uses the memory of
/// `microbatches_in_flight` (by default as many as there are stages) as well as its knob allows;
/// one that has no variant within it is shown with its smallest. Returns the exit code. Throws
/// Error (usage) if no schedule takes the shape.
int compare_schedules(Console& console, const ScenarioOptions& options,
                      const ConditionOptions& conditions,
                      std::optional<int> microbatches_in_flight);

}  // namespace stagecraft
