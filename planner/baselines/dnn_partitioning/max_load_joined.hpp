// Nodes that a split must keep together to stay below a limit, and the smaller problem with these
// joined.

#pragma once

#include <optional>
#include <vector>

#include "planner/baselines/dnn_partitioning/max_load.hpp"

namespace stagecraft {

/// For each node a node of its group (the group's own number is the least of its nodes): no split,
/// contiguous or not, whose devices are all loaded less than `limit` has two nodes of a group on
/// different devices. Nothing if there is no such split at all, since a group fits nowhere.
///
/// If two nodes are on different devices, each of these devices pays for all tensors that they
/// share.
std::optional<std::vector<int>> groups_below(const MaxLoadProblem& problem, double limit);

/// Groups of nodes that share tensors of at least this cost, as long as a group takes no more than
/// `most_time` on an accelerator and fits into one: not what must be, but what is likely to be.
std::vector<int> groups_by_cost(const MaxLoadProblem& problem, double least_cost, double most_time);

/// A node for each group, whose members are the numbers of the nodes in it; tensors between the
/// same groups are one. Without edges.
MaxLoadProblem joined(const MaxLoadProblem& problem, const std::vector<int>& groups);

}  // namespace stagecraft
