// Arguments of Megatron-LM's integration test runs that their measured rows do not repeat.

#pragma once

#include <string_view>

#include "planner/calibration/megatron_arguments.hpp"

namespace stagecraft {

/// Sets what is known of the case ("gpt/gpt3_15b_8t_release_sm") besides its row: arguments of its
/// configuration, and for release runs "world-size".
void complete_arguments(std::string_view name, MegatronArguments& arguments);

}  // namespace stagecraft
