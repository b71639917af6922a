// Changes of a plan's stages: how many there are, which layers they hold and which devices run
// them.

#pragma once

#include "planner/analysis/changes.hpp"
#include "planner/analysis/changes/wishes.hpp"

namespace stagecraft::what_if {

/// Schedule, degrees and stages. Throws Error (input) saying what makes the wished ones impossible.
void set_stages(const Wishes& wishes, bool balance, ChangedPlan& changed);

}  // namespace stagecraft::what_if
