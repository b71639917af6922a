// What the rows of a plan's program are called: one numbering, the cluster's, wherever they are
// shown.

#pragma once

#include <vector>

#include "planner/costs/predict.hpp"

namespace stagecraft {

/// What each device of the program is named by: the cluster's devices that do its work, ascending;
/// its peers, and in a program of one column those of all columns.
std::vector<std::vector<int>> row_names(const Plan& plan, const Compiled& compiled);

}  // namespace stagecraft
