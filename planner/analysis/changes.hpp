// What if: a plan with one value of it, or of its cluster, set to another.

#pragma once

#include <string>
#include <vector>

#include "planner/analysis/change_kinds.hpp"
#include "planner/interop/load_plan.hpp"

namespace stagecraft {

/// One device that computes slower than the plan's costs say.
struct SlowDevice {
  int device = 0;       ///< the cluster's number
  std::string percent;  ///< longer, as it was given: "20%"
};

struct ChangedPlan {
  LoadedPlan loaded;
  std::vector<SlowDevice> slow;    ///< conditions of the simulation, not of the plan
  bool changes_cluster = false;    ///< links are not those that the plan's cluster is named for
  std::vector<std::string> notes;  ///< what else had to change, and how
};

/// The plan with all the changes. What is not said stays: layers stay where they are unless the
/// number of stages changes or `balance` asks for it, then they are cut for equal time on every
/// device; replicas take the devices that other degrees leave; samples per microbatch and replica
/// stay. The plan's prediction and bound are dropped. Throws Error (usage) for values that do not
/// read, and Error (input) saying which change is impossible and why.
ChangedPlan changed(LoadedPlan loaded, const std::vector<Change>& changes, bool balance = false);

}  // namespace stagecraft
