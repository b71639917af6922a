// What `advise` answers: edits as rows for people, and as JSON.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planner/analysis/advice.hpp"

namespace stagecraft {

/// Rows under a heading: step, difference from now, memory of the fullest device, and below each
/// the flags of the target that change. Empty without rows.
std::string advice_table(std::string_view heading, const std::vector<AdvisedEdit>& edits,
                         bool unicode);

/// now, edits[] (single ones and pairs, best first), together, closest, tried. `flags` are in the
/// words of the target, with -> for what becomes another.
nlohmann::ordered_json advice_json(const LoadedPlan& loaded, const Advice& advice);

/// " --set tp=2 --set vpp=5".
std::string set_flags(const std::vector<Change>& changes);

}  // namespace stagecraft
