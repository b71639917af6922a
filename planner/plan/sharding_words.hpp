// Names of sharding, ours and those of frameworks.

#pragma once

#include <string_view>

#include "simulator/values/program.hpp"

namespace stagecraft {

/// Reads our name of a sharding or a framework's: "zero3", "fsdp", "zero-3" and "full_shard" are
/// the same; so are "none" and "ddp". Throws Error (usage) with our names for any other.
Sharding sharding_of_word(std::string_view word);

}  // namespace stagecraft
