// The file of a changed plan, from `simulate --set` or `advise`.

#pragma once

#include <string>

#include "planner/analysis/changes.hpp"
#include "planner/costs/predict.hpp"
#include "planner/targets/targets.hpp"

namespace stagecraft {

/// Throws Error (usage) for changes that a plan's file cannot contain: those of the cluster's links
/// and of slow devices. `flag` is the flag that requested the file.
void require_in_plan(const ChangedPlan& changed, const std::string& flag);

/// The plan's file, with its prediction. A model and a cluster that were found beside `path`, the
/// plan's former file, are named by paths from the current folder.
std::string text_of_kept_plan(Plan plan, const std::string& path, const Prediction& prediction);

/// A note if the file does not contain the memory that its devices were simulated with; `named` is
/// the cluster of the plan's file. Else empty.
std::string memory_not_kept(const Cluster& named, const LoadedPlan& simulated);

/// A note if the original plan was searched for a framework, which does not hold for the changed
/// plan in `file`. Else empty.
std::string target_not_kept(const Target* target, const std::string& file);

}  // namespace stagecraft
