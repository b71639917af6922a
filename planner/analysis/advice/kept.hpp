// What advice must leave as it is (`--keep`). For the sources of this folder.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.hpp"

namespace stagecraft::advising {

/// Keys as `change_kinds` has them. Throws Error (usage) for names that are none, or not of plans.
std::vector<std::string> keys_to_keep(const std::vector<std::string>& names);

/// What of a plan goes by the key, as a text that is equal where it is. "order" is told by the
/// changes themselves.
std::string value_of(std::string_view key, const Plan& plan);

}  // namespace stagecraft::advising
