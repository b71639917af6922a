// The properties that advice must keep (`--keep`). For the sources of this folder.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.hpp"

namespace stagecraft::advising {

/// Keys as `change_kinds` has them. Throws Error (usage) for names that are none, or not of plans.
std::vector<std::string> keys_to_keep(const std::vector<std::string>& names);

/// The value of a key in a plan, as a text that is equal for equal values. "order" is judged by the
/// changes themselves.
std::string value_of(std::string_view key, const Plan& plan);

}  // namespace stagecraft::advising
