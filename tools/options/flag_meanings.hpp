// What flags of other systems are called here: whoever types Megatron-LM's or torchrun's is told
// ours.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// What to say instead of an option that the verb does not have, "--tp", or "--set tp=…" where the
/// verb takes that; empty where nothing known means the same. `options` are the verb's own.
std::string option_of_same_meaning(std::string_view unknown,
                                   const std::vector<std::string>& options);

}  // namespace stagecraft
