// Units of a search: nanoseconds of a training step, and effort, its deterministic measure of work.

#pragma once

#include <cstdint>
#include <stop_token>

namespace stagecraft {

using Time = std::int64_t;  // nanoseconds
inline constexpr Time never = INT64_MAX / 8;
inline constexpr Time long_ago = -never;

/// The work that a search may still do, counted in steps of about ten nanoseconds instead of by a
/// clock, so that equal inputs give equal results. It is spent once a stop is requested.
struct Effort {
  std::int64_t left = 0;
  std::stop_token stop = {};
  void spend(std::int64_t steps) { left -= steps; }
  bool is_spent() const { return left <= 0 || stop.stop_requested(); }
};

/// Effort to simulate an instruction, including lowering and memory.
inline constexpr std::int64_t steps_per_simulated_instruction = 300;

inline const Effort no_limit{.left = INT64_MAX};

}  // namespace stagecraft
