// A compiled program with other costs: for questions that change no instruction.

#pragma once

#include "planner/costs/cost_book.hpp"
#include "planner/costs/predict.hpp"

namespace stagecraft {

/// What the program costs by another book than the one it was compiled with, such as that of a
/// cluster with other links. The plan, the profile and the devices are those it was compiled from;
/// what stages do again may differ, as far as the program stays the same.
Costs cost_program(const Compiled& compiled, const Plan& plan, CostBook& book);

}  // namespace stagecraft
