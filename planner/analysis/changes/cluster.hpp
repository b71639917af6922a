// Changes of the cluster: bandwidths and latencies of its links, and devices that are slow.

#pragma once

#include "planner/analysis/changes.hpp"
#include "planner/analysis/changes/wishes.hpp"

namespace stagecraft::what_if {

/// Links of the changed plan's cluster, and its slow devices. Throws Error (usage) for links and
/// devices that the cluster does not have.
void set_cluster(const Wishes& wishes, ChangedPlan& changed);

}  // namespace stagecraft::what_if
