// What the rows of a plan's program are called: one numbering, the cluster's, wherever they are
// shown.

#pragma once

#include <string>
#include <vector>

#include "planner/costs/predict.hpp"

namespace stagecraft {

/// For each device of the program, the cluster's devices that do its work, ascending: its peers,
/// and in a program of one column those of all columns.
std::vector<std::vector<int>> devices_of_rows(const Plan& plan, const Compiled& compiled);

/// "device 5", "devices 0-3"; of more than four runs of numbers the first four and "...".
std::vector<std::string> row_names(const Plan& plan, const Compiled& compiled);

}  // namespace stagecraft
