// Where on the cluster a plan's stages had best stand, if some devices have links of their own:
// slow ones to stay clear of, or fast ones to use.
//
// There are too many orders of devices to search each. A cluster without links of its own, every
// level of which is as fast as the fastest that joins parts of it, is no slower for any plan: the
// search of it bounds plans on devices in every order, and names stages that are worth placing.
// Then parts of levels change places, step by step, each simulated on the cluster itself.

#pragma once

#include <vector>

#include "planner/search/evaluator.hpp"

namespace stagecraft {

/// The cluster without links of its own: each level has the least latency and the most bandwidths
/// of all links that cross it.
Cluster with_best_links(const Cluster& cluster);
Problem with_best_links(Problem problem);

/// The same devices, each joined to all others by the fastest link of the cluster, without latency,
/// since rings have more hops than trees: nothing takes longer there, wherever it is.
Cluster with_fastest_links(const Cluster& cluster);

/// Questions about that cluster whose answers are worth placing: the problem itself first; then
/// without replicas, which need no rings over all their devices; and without the fewest devices
/// found that all slow links of their own begin or end at, if those are less than half.
std::vector<Problem> questions_to_place(const Problem& problem);

/// An order of the problem's devices (planner/space/device_orders.hpp), and the plan in it.
struct Placed {
  std::vector<int> order;
  Candidate candidate;
};

/// The candidate, a plan for the cluster with its best links, on devices of the cluster itself:
/// first as they come, then two parts of a level at a time change places as long as that makes it
/// faster and the effort lasts. Plans that the problem does not want are passed over.
Placed place(const Space& space, const Candidate& candidate, Effort& effort);

}  // namespace stagecraft
