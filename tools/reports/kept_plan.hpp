// A plan that changes made, as a file of its own: what `simulate --set` tried, and what `advise`
// found.

#pragma once

#include <string>

#include "planner/analysis/changes.hpp"
#include "planner/costs/predict.hpp"
#include "planner/targets/targets.hpp"

namespace stagecraft {

/// Throws Error (usage) for changes that are none of the plan itself, and so in no plan's file: of
/// its cluster's links, and how slow a device is. `flag` is what asks for the file.
void require_in_plan(const ChangedPlan& changed, const std::string& flag);

/// The plan's file, with what it is predicted to take. A model and a cluster that were found beside
/// `path`, the plan's former file, are named by paths that lead there from here.
std::string text_of_kept_plan(Plan plan, const std::string& path, const Prediction& prediction);

/// A note where the file does not say how much memory its devices were simulated with; `named` is
/// the cluster as the plan's file has it. Empty otherwise.
std::string memory_not_kept(const Cluster& named, const LoadedPlan& simulated);

/// A note where the plan that was changed had been made for a framework, which no search of its
/// own has found the changed one for. `file` is where that is kept. Empty otherwise.
std::string target_not_kept(const Target* target, const std::string& file);

}  // namespace stagecraft
