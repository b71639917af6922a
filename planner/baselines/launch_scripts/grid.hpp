// Launch-script planners: a number of stages that divides the devices, every stage on equally many
// replicas, layers cut by a rule of thumb.

#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The ways a planner would cut the model into so many stages, as boundaries (see partition.hpp);
/// none where it refuses.
using CutRule = std::function<std::vector<std::vector<int>>(int stages)>;

/// What a planner would call the quality of such a cut.
using CutQuality = std::function<Objective(const std::vector<int>& cuts)>;

/// Whether some stage has no layers.
bool has_empty_stage(const std::vector<int>& cuts);

/// Every number of stages that divides the devices (only all of them with `straight`), every cut;
/// scored by our evaluator, the fastest that fits wins. Cuts with an empty stage are passed over.
SearchResult search_grid(const Problem& problem, const SearchControl& control,
                         std::string_view name, const CutRule& cuts, const CutQuality& quality);

}  // namespace stagecraft
