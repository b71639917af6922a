// Launch-script planners: a number of stages that divides the devices, every stage on equally many
// replicas, layers cut by a rule of thumb.

#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The cuts into `stages` stages that a planner would consider, as boundaries (see partition.hpp);
/// empty if it refuses.
using CutRule = std::function<std::vector<std::vector<int>>(int stages)>;

/// The planner's own measure of a cut's quality.
using CutQuality = std::function<Objective(const std::vector<int>& cuts)>;

/// Whether some stage has no layers.
bool has_empty_stage(const std::vector<int>& cuts);

/// Every number of stages that divides the devices (only all of them with `straight`), every cut;
/// scored by our evaluator, the fastest that fits wins. Cuts with an empty stage are passed over.
SearchResult search_grid(const Problem& problem, const SearchControl& control,
                         std::string_view name, const CutRule& cuts, const CutQuality& quality);

}  // namespace stagecraft
