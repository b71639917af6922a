// What searches count in: nanoseconds of a step, and steps of their own work.

#pragma once

#include <cstdint>
#include <stop_token>

namespace stagecraft {

using Time = std::int64_t;  // nanoseconds
inline constexpr Time never = INT64_MAX / 8;
inline constexpr Time long_ago = -never;

/// What a search may still spend. Counted in steps of about ten nanoseconds instead of time, so
/// that equal inputs give equal results; nothing once a stop is requested.
struct Effort {
  std::int64_t left = 0;
  std::stop_token stop = {};
  void spend(std::int64_t steps) { left -= steps; }
  bool is_spent() const { return left <= 0 || stop.stop_requested(); }
};

/// What simulating an instruction costs beside timing it (lowering, memory).
inline constexpr std::int64_t steps_per_simulated_instruction = 300;

inline const Effort no_limit{.left = INT64_MAX};

}  // namespace stagecraft
