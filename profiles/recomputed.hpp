// What backward does again so that forward need not keep it.

#pragma once

#include <string_view>

namespace stagecraft {

/// Nothing, the attention between scores and weighted sum (Korthikanti et al. 2022), or every
/// layer.
enum class Recomputed { none, selective, full };
std::string_view to_string(Recomputed recompute);

}  // namespace stagecraft
