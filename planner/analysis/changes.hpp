// What-if changes: a plan with properties of it, or of its cluster, set to other values.

#pragma once

#include <string>
#include <vector>

#include "planner/analysis/change_kinds.hpp"
#include "planner/interop/load_plan.hpp"

namespace stagecraft {

/// One device that computes slower than the plan's costs say.
struct SlowDevice {
  int device = 0;       ///< the cluster's number
  std::string percent;  ///< extra compute time as given: "20%"
};

struct ChangedPlan {
  LoadedPlan loaded;
  std::vector<SlowDevice> slow;    ///< conditions of the simulation, not of the plan
  bool changes_cluster = false;    ///< the links differ from those of the plan's named cluster
  std::vector<std::string> notes;  ///< further changes that were necessary, in words
};

/// The plan with all the changes. Everything else stays: layers keep their stages unless the number
/// of stages changes or `balance` is set, in which case they are cut for equal time on every
/// device; replicas take the devices that other degrees leave; samples per microbatch and replica
/// stay. The plan's prediction and bound are dropped. Throws Error (usage) for values that cannot
/// be read, and Error (input) for a change that is impossible, with the reason.
ChangedPlan changed(LoadedPlan loaded, const std::vector<Change>& changes, bool balance = false);

}  // namespace stagecraft
