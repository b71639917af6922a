// Other orders of a cluster's devices. A search takes devices in the cluster's order, so that stage
// 0 stands on the first ones; where kinds differ, or some devices have links of their own, it
// matters which come first.
//
// What the links of one level join (nodes, or single devices of a flat cluster) can change places
// without changing any link, so each order is the same cluster with other numbers.

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "planner/search.hpp"

namespace stagecraft {

/// Orders in which parts of one make follow each other: for each new number the device's own, the
/// cluster's own order left out. At most so many, in lexicographical order of the makes as they
/// first appear. None where all parts are alike.
std::vector<std::vector<int>> other_device_orders(const Cluster& cluster, std::size_t most);

/// Every order but the cluster's own that tells kinds or links of their own apart, in
/// lexicographical order of the first of each; nothing where they are more than `most`, or too many
/// to go through.
std::optional<std::vector<std::vector<int>>> all_other_device_orders(const Cluster& cluster,
                                                                     std::size_t most);

/// Those that the exact search tries: five orders of kinds at most, or all orders where devices
/// have links of their own and these are at most twelve. None where the question is about the first
/// so many devices.
std::vector<std::vector<int>> asked_device_orders(const Problem& problem);

/// Whether devices have links of their own, and not all orders are tried
/// (planner/searches/placement.hpp).
bool needs_placement(const Problem& problem);

/// The cluster with device order[i] at place i.
Cluster in_device_order(const Cluster& cluster, const std::vector<int>& order);
/// The question about such a cluster.
Problem in_device_order(Problem problem, const std::vector<int>& order);

/// The plan with device numbers[d] for device d: of a plan for such a cluster, and its order, the
/// plan for the cluster itself.
Plan renumbered(Plan plan, const std::vector<int>& numbers);

}  // namespace stagecraft
