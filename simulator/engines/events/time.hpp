// Time inside the event engine. Internal to the simulator.

#pragma once

#include <cstdint>

#include "profiles/error.hpp"
#include "profiles/wide.hpp"

namespace stagecraft::events {

using Time = std::int64_t;  // nanoseconds
inline Time add(Time a, Time b) {
  Time sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) fail("simulate: times exceed 292 years");
  return sum;
}

}  // namespace stagecraft::events
