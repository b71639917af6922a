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

/// The key of --set that changes what a framework's flag or line of a configuration says: "tp" of
/// "--tensor-model-parallel-size", of "tensor_parallel_degree" and of
/// "config.training.local_batch_size" "mbs"; empty where no key does.
std::string key_of_flag(std::string_view name);

}  // namespace stagecraft
