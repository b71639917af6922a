// The arguments that a run of Megatron-LM prints into its log, between two lines of hyphens.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/interop/importers/flag_words.hpp"

namespace stagecraft {

bool has_arguments_dump(std::string_view content);

/// Each with its value as it is printed ("None", "False", "32"), of the first rank that prints
/// them.
std::vector<FlagWord> read_arguments_dump(std::string_view content, const std::string& file);

}  // namespace stagecraft
