// Other orders of a cluster's devices. A search takes devices in the cluster's order: stage 0
// stands on the first ones, and every stage on consecutive ones. If links or kinds differ, the
// order matters: replicas within a node sum gradients over fast links, but a stage that spans nodes
// may leave better places to others.
//
// Parts of one level (nodes, or single devices of a flat cluster) can be exchanged without changing
// any link, so such an order is the same cluster with other device numbers. Any other order joins
// neighbours by other links.

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The devices that are not excluded, ascending; at most the number that the problem asks for.
std::vector<int> devices_in_use(const Problem& problem);

/// All other devices of the cluster, ascending, to be excluded from a problem about only these.
std::vector<int> devices_other_than(const std::vector<int>& these, const Cluster& cluster);

/// Orders in which parts of equal kinds of devices are consecutive, as permutations (order[i] is
/// the device at place i), without the cluster's own order. At most `most`, in lexicographical
/// order of the kinds by first appearance. Empty if all parts are equal.
std::vector<std::vector<int>> other_device_orders(const Cluster& cluster, std::size_t most);

/// Every order that keeps parts of levels together, except the cluster's own, one of each that
/// differ in kinds or link overrides, in lexicographical order. Nothing if there are more than
/// `most`, or too many to enumerate.
std::optional<std::vector<std::vector<int>>> all_other_device_orders(const Cluster& cluster,
                                                                     std::size_t most);

/// Every order of the devices that are not excluded (excluded ones come last), except the cluster's
/// own: one of each that differ in the kind of a device or in its links to those before it. Nothing
/// if there are more than `most` orders, or more than eight devices.
std::optional<std::vector<std::vector<int>>> every_other_device_order(
    const Cluster& cluster, const std::vector<int>& excluded, std::size_t most);

inline constexpr std::size_t most_groups_of_sets = 8;

/// Every set of these groups of devices, by group number: one of each that differ in kinds of
/// devices or in links, small sets first. Nothing if there are more than `most` sets, or more than
/// `most_groups_of_sets` groups.
std::optional<std::vector<std::vector<int>>> every_set_of(
    const Cluster& cluster, const std::vector<std::vector<int>>& groups, std::size_t most);

/// Orders beside the cluster's own.
struct DeviceOrders {
  std::vector<std::vector<int>> orders;
  bool is_every = false;  ///< any stages are consecutive in one of these orders or in the cluster's
                          ///< own
};

/// The orders that the exact search tries. Every order, if there are at most 24 and each replica is
/// one device; else, with link overrides, all orders that keep nodes together, if there are at most
/// twelve; else, without overrides, at most five orders of kinds. None if the problem is about a
/// fixed number of devices.
DeviceOrders asked_device_orders(const Problem& problem);

/// Whether there are link overrides and not all orders are tried, so that plans are placed by local
/// search (planner/search/heuristics/placement.hpp).
bool needs_placement(const Problem& problem);

/// The cluster with device order[i] at place i.
Cluster in_device_order(const Cluster& cluster, const std::vector<int>& order);
/// The problem on such a cluster.
Problem in_device_order(Problem problem, const std::vector<int>& order);

/// The plan with device numbers[d] in place of device d. Given a plan for a reordered cluster and
/// its order, returns the plan for the cluster itself.
Plan renumbered(Plan plan, const std::vector<int>& numbers);

}  // namespace stagecraft
