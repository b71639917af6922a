// Other costs for a compiled program, for changes that leave its instructions as they are.

#pragma once

#include "planner/costs/cost_book.hpp"
#include "planner/costs/predict.hpp"

namespace stagecraft {

/// The program's costs under another cost book, such as that of a cluster with other links. Plan,
/// profile and devices must be those that it was compiled from; recomputation may differ if the
/// program stays the same.
Costs cost_program(const Compiled& compiled, const Plan& plan, CostBook& book);

}  // namespace stagecraft
