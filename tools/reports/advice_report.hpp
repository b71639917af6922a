// The output of `advise`: edits as table rows, and as JSON.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planner/analysis/advice.hpp"

namespace stagecraft {

/// A table with a heading: per edit its step, difference from the present step, and memory of the
/// fullest device, and below it the changed flags of the target. Empty without rows.
std::string advice_table(std::string_view heading, const std::vector<AdvisedEdit>& edits,
                         bool unicode);

/// now, edits[] (single edits and pairs, best first), together, closest, tried. `flags` are the
/// target's, with -> between old and new values.
nlohmann::ordered_json advice_json(const LoadedPlan& loaded, const Advice& advice);

/// " --set tp=2 --set vpp=5".
std::string set_flags(const std::vector<Change>& changes);

}  // namespace stagecraft
