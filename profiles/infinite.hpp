// The value of what is impossible, in searches that minimise.

#pragma once

#include <limits>

namespace stagecraft {

inline constexpr double infinite = std::numeric_limits<double>::infinity();

}  // namespace stagecraft
