// Any profile as Aceso's tables.

#pragma once

#include "planner/problem/problem.hpp"
#include "profiles/importers/aceso_database.hpp"

namespace stagecraft {

/// The unit of its sizes.
inline constexpr double aceso_mebibyte = 1024.0 * 1024;

/// Each layer is an operator, with a table for each share of a microbatch and degree that has
/// costs; all links inside a node are as fast as the slowest there, and likewise between nodes.
/// Optimizer state is divided like the weights; an operator keeps its saved activations and its
/// output, and reserves its workspace. Throws Error (input) if no setting has costs.
AcesoDatabase aceso_figures(const Problem& problem);

/// Devices per node: those that the innermost links join.
int aceso_devices_per_node(const Problem& problem);

}  // namespace stagecraft
