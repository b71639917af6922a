// Compiling a plan with gradient clipping.

#pragma once

#include "planner/costs/predict.hpp"

namespace stagecraft {

/// As `compile`, with the norm of all gradients reduced to every device before its updates. Throws
/// Error (input) for schedules without a flush, whose stages update at different times.
Compiled compile_with_norm(const Plan& plan, const Profile& profile, const Cluster& cluster);

}  // namespace stagecraft
