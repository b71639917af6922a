// Names of a program's rows in all views: the device numbers of the cluster.

#pragma once

#include <vector>

#include "planner/costs/predict.hpp"

namespace stagecraft {

/// For each program device, the cluster's devices that it stands for, ascending: its peers, and in
/// a program of one column those of all columns.
std::vector<std::vector<int>> row_names(const Plan& plan, const Compiled& compiled);

}  // namespace stagecraft
