// Flags that Megatron-LM does not have, or has in other words: of NeMo and NeMo RL, slime, verl,
// Primus, mcore_adapter, GPT-NeoX and DeepSpeed. For the importer of launches.

#pragma once

#include "planner/interop/importers/launch_parser.hpp"

namespace stagecraft {

/// Takes what the word says about the plan; false if it is none of these flags. The word is as
/// Megatron-LM has it (`in_megatron`). Throws Error (input) with the place of a value that cannot
/// be understood.
bool take_own_flag(const FlagWord& word, const FlagReading& reading, ParsedLaunch& parsed);

}  // namespace stagecraft
