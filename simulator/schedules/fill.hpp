// The machinery of the automatic schedules: given an order in which each device would like to do
// its F and I, place them and the W on a clock, within a limit of memory. Internal to
// simulator/schedules/.

#pragma once

#include <optional>
#include <vector>

#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

/// Per device, all its F and I; each stage's F ascend, and so do its I.
using PreferredOrder = std::vector<std::vector<Instruction>>;

struct FillPolicy {
  int lookahead = 1;     ///< number of places of the preferred order within which instructions may
                         ///< overtake
  Duration patience{0};  ///< a W may start if it delays a known F or I by at most this
  bool later_stage_first = true;  ///< which of a device's stages gives its W first
};

/// Times and memory that the clock uses. Times are of one stage; memory is in bytes.
struct FillCosts {
  Duration forward{0};
  Duration backward_input{0};
  Duration backward_weight{0};
  Duration transfer{0};
  Bytes saved = 1;             ///< from F to I
  Bytes saved_for_weight = 1;  ///< the part that stays to W
  Bytes room = 0;              ///< of each device
};

/// Nothing when the preferred order cannot be carried out in the room there is. Always something
/// when the lookahead is unlimited and the room takes one activation per stage.
std::optional<Schedule> fill(Schedule empty, const PreferredOrder& preferred,
                             const FillPolicy& policy, const FillCosts& costs);

/// The schedule with the least sum of step time and longest span, the first of equals: among those
/// of `known` that fit, and all preferred orders under many policies. `room` is in stage
/// activations per device. The result has the name of `empty`.
Schedule best_filling(const Schedule& empty, const std::vector<Schedule>& known,
                      const std::vector<PreferredOrder>& preferred, const ScheduleShape& shape,
                      int room);

/// The order without its weight gradients.
PreferredOrder without_weights(const Schedule& schedule);

}  // namespace stagecraft
