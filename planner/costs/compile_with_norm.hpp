// Compiling a plan whose gradients are to be clipped.

#pragma once

#include "planner/costs/predict.hpp"

namespace stagecraft {

/// As `compile`, with the norm of all gradients known to every device before its updates. Throws
/// Error (input) where stages update at times of their own.
Compiled compile_with_norm(const Plan& plan, const Profile& profile, const Cluster& cluster);

}  // namespace stagecraft
