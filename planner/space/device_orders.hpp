// Other orders of a cluster's devices. A search takes devices in the cluster's order, so that stage
// 0 stands on the first ones, and every stage on consecutive ones. Where devices are not all joined
// alike, or differ in kind, it matters which come first, and which are neighbours: replicas within
// a node sum gradients over its links, but a stage that spans nodes may leave better places to
// others.
//
// Parts of one level (nodes, or single devices of a flat cluster) can change places without
// changing any link, so such an order is the same cluster with other numbers. In any other order
// neighbours are no longer joined as they were.

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Those that are not excluded, ascending; at most as many as the question is about.
std::vector<int> devices_in_use(const Problem& problem);

/// All others of the cluster, ascending: to be excluded from a question about just these.
std::vector<int> devices_other_than(const std::vector<int>& these, const Cluster& cluster);

/// Orders in which parts of one make follow each other: for each new number the device's own, the
/// cluster's own order left out. At most so many, in lexicographical order of the makes as they
/// first appear. None where all parts are alike.
std::vector<std::vector<int>> other_device_orders(const Cluster& cluster, std::size_t most);

/// Every order that keeps parts of levels together, but the cluster's own, that tells kinds or
/// links of their own apart, in lexicographical order of the first of each; nothing where they are
/// more than `most`, or too many to go through.
std::optional<std::vector<std::vector<int>>> all_other_device_orders(const Cluster& cluster,
                                                                     std::size_t most);

/// Every order of the devices that are not excluded, which come last, but the cluster's own: one of
/// each that differ in what kind a device is of or how it is joined to those before it. Nothing
/// where they are more than `most`, or the devices more than eight.
std::optional<std::vector<std::vector<int>>> every_other_device_order(
    const Cluster& cluster, const std::vector<int>& excluded, std::size_t most);

inline constexpr std::size_t most_groups_of_sets = 8;

/// Every set of these groups of devices, by number: one of each that differ in what kinds their
/// devices are of or how they are joined, small ones first. Nothing where they are more than
/// `most`, or the groups more than `most_groups_of_sets`.
std::optional<std::vector<std::vector<int>>> every_set_of(
    const Cluster& cluster, const std::vector<std::vector<int>>& groups, std::size_t most);

/// Orders beside the cluster's own.
struct DeviceOrders {
  std::vector<std::vector<int>> orders;
  bool is_every = false;  ///< stages on any devices are consecutive in one of them, or the own
};

/// Those that the exact search tries. Every order if they are at most 24, and no replica has
/// several devices; else all that keep nodes together if some links are of their own and the
/// orders at most twelve; else, where there are no such links, five orders of kinds at most. None
/// where the question is about the first so many devices.
DeviceOrders asked_device_orders(const Problem& problem);

/// Whether devices have links of their own, and not all orders are tried
/// (planner/search/heuristics/placement.hpp).
bool needs_placement(const Problem& problem);

/// The cluster with device order[i] at place i.
Cluster in_device_order(const Cluster& cluster, const std::vector<int>& order);
/// The question about such a cluster.
Problem in_device_order(Problem problem, const std::vector<int>& order);

/// The plan with device numbers[d] for device d: of a plan for such a cluster, and its order, the
/// plan for the cluster itself.
Plan renumbered(Plan plan, const std::vector<int>& numbers);

}  // namespace stagecraft
