// Placement of a plan's stages on a cluster in which some pairs of devices have their own links
// (`Cluster::overrides`), slower or faster than the links of their level.
//
// There are too many orders of devices to search each. A relaxed cluster, each level of which is as
// fast as the fastest link that joins its parts, is no slower for any plan: its search gives a
// lower bound for every order of devices, and plans that are worth placing. Local search then
// exchanges parts of levels, and simulates each exchange on the cluster itself.

#pragma once

#include <vector>

#include "planner/search/evaluator.hpp"

namespace stagecraft {

/// The relaxed cluster, without overrides: each level has the lowest latency and the highest
/// bandwidths of all links that cross it.
Cluster with_best_links(const Cluster& cluster);
Problem with_best_links(Problem problem);

/// The same devices, each pair joined by the fastest link of the cluster, without latency (rings
/// have more hops than trees). No plan takes longer there, wherever its stages stand.
Cluster with_fastest_links(const Cluster& cluster);

/// Problems on the relaxed cluster whose answers are worth placing: first the problem itself; then
/// the problem without replicas, whose plans need no rings over all devices; and the problem
/// without the devices at which all slow overrides begin or end, if a greedy choice finds fewer
/// than half of the devices.
std::vector<Problem> questions_to_place(const Problem& problem);

/// An order of the problem's devices (planner/space/device_orders.hpp), and the plan in it.
struct Placed {
  std::vector<int> order;
  Candidate candidate;
};

/// Places a plan for the relaxed cluster on the cluster itself: first on the same device numbers,
/// then by local search, which exchanges two parts of a level while that makes the plan faster and
/// effort is left. Plans that the problem does not allow are skipped.
Placed place(const Space& space, const Candidate& candidate, Effort& effort);

}  // namespace stagecraft
