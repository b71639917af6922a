// Sharding in the words of people and of their frameworks.

#pragma once

#include <string_view>

#include "simulator/values/program.hpp"

namespace stagecraft {

/// Sharding by our name or by what frameworks call it: "zero3" is "fsdp", "zero-3" and
/// "full_shard", too; "none" is "ddp". Throws Error (usage) with our names.
Sharding sharding_of_word(std::string_view word);

}  // namespace stagecraft
