// A plan's order of compute as torch reads it.

#pragma once

#include <string>

#include "planner/interop/exporters/reasons.hpp"
#include "planner/plan/plan.hpp"

namespace stagecraft {

/// The text of a file for `_load_csv`, which adds communication. A reason where torch has no words
/// for the order.
std::string torch_order_csv(Reasons& reasons, const Plan& plan);

}  // namespace stagecraft
