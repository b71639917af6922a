// All schedules. To add one: write schedules/NAME.cpp, declare its function here, add a row.

#pragma once

#include <array>
#include <string_view>

#include "simulator/schedule.hpp"

namespace stagecraft {

enum class StagePlacement {
  linear,
  loop,
  vee
};  ///< stage s on device s · s mod p · s if s < p else 2p - 1 - s
std::string_view to_string(StagePlacement placement);

struct ScheduleKind {
  std::string_view name;
  std::string_view aliases;  ///< separated by spaces
  /// Emits each stage's backwards in ascending order of microbatches, so that every schedule sums
  /// gradients alike. Throws Error (usage) naming the violated constraint and the nearest legal
  /// value.
  Schedule (*generate)(const ScheduleShape& shape);
  StagePlacement placement;
  bool splits_backward;
  bool synchronous;
  int weight_versions;
  std::string_view constraints;
  std::string_view summary;
};

Schedule gpipe(const ScheduleShape& shape);
Schedule one_f_one_b(const ScheduleShape& shape);
Schedule interleaved(const ScheduleShape& shape);

inline constexpr std::array schedule_kinds{
    ScheduleKind{"gpipe", "f-then-b fill-drain", gpipe, StagePlacement::linear, false, true, 1,
                 "virtual stages = 1",
                 "all forwards, then all backwards; keeps every microbatch's activations"},
    ScheduleKind{"1f1b", "pipedream-flush dapple-pa", one_f_one_b, StagePlacement::linear, false,
                 true, 1, "virtual stages = 1",
                 "one forward, one backward; device r keeps at most p - r microbatches"},
    ScheduleKind{"interleaved", "interleaved-1f1b vpp looped-1f1b looped", interleaved,
                 StagePlacement::loop, false, true, 1, "p <= group <= m; m mod group is 0 or >= p",
                 "1f1b over several stages per device; a smaller bubble, more transfers"},
};

/// The row of a name or alias. Throws Error (usage) with the known names and a suggestion.
const ScheduleKind& find_schedule(std::string_view name);

}  // namespace stagecraft
