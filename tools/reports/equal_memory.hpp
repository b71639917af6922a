// Comparison of schedules with equal memory for activations.

#pragma once

#include <optional>

#include "tools/console.hpp"
#include "tools/options/scenario.hpp"

namespace stagecraft {

/// Prints a row per schedule, the fastest that fits first. Each schedule's parameter is set to make
/// the best use of the memory of `microbatches_in_flight` (default: the number of stages); a
/// schedule without a variant that fits is shown with its smallest. Returns the exit code. Throws
/// Error (usage) if no schedule accepts the shape.
int compare_schedules(Console& console, const ScenarioOptions& options,
                      const ConditionOptions& conditions,
                      std::optional<int> microbatches_in_flight);

}  // namespace stagecraft
