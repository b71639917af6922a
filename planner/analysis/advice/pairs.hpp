// Pairs of edits that are worth a try. For the sources of this folder.

#pragma once

#include <vector>

#include "planner/analysis/advice.hpp"
#include "planner/analysis/advice/change_sets.hpp"

namespace stagecraft::advising {

/// The pairs that promise most, as if gains and memory multiplied.
std::vector<ChangeSet> pairs_to_try(const std::vector<AdvisedEdit>& singles, const Prediction& now);

}  // namespace stagecraft::advising
