// Enumerates every plan of a setting that could be faster than a bound. This verifies bounds of
// small questions with code that the search does not share.
//
// Stages are chosen from the first on. A partial plan is pruned if the load of a device, after its
// first forward, or the remaining work, spread over the remaining device time, reaches the bound.
// Complete plans are simulated.

#pragma once

#include <optional>

#include "planner/space/space.hpp"

namespace stagecraft {

/// Least device time of a layer for a microbatch, in nanoseconds: r replicas that share a
/// microbatch occupy r devices for the time of the largest share; a round-robin replica occupies
/// one device.
std::int64_t layer_work(const Space& space, const Setting& setting, int layer);

struct Listed {
  bool is_complete = false;         ///< false: there were too many plans
  std::optional<Candidate> faster;  ///< a plan that fits and is faster than the bound
};

/// Enumerates the plans of a setting, which must have no columns.
Listed list_plans(const Space& space, const Setting& setting, Duration bound);

}  // namespace stagecraft
