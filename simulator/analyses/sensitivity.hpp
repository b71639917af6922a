// Sensitivity: the change of the step if one class of costs takes longer or shorter.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/lowering/lower.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

/// A class of costs that is scaled.
enum class Lever {
  stage,    ///< compute of all chunks of a stage
  device,   ///< compute of all chunks of a device
  op,       ///< one kind of compute everywhere
  channel,  ///< latency and occupancy of one channel
  link,     ///< latency and occupancy of all channels from one device to another
  group,    ///< one group's collectives
};

struct Effect {
  Lever lever = Lever::stage;
  int index = 0;          ///< stage, device, channel or group; for a link the sending device
  int to = 0;             ///< for a link the receiving device
  Op op = Op::forward;    ///< for `op`
  Duration step{0};       ///< the step with the changed times
  double elasticity = 0;  ///< relative change of the step per relative change of the times
  bool operator==(const Effect&) const = default;
};

/// "stage 2", "link 0 -> 1", "forward".
std::string to_string(const Effect& effect);

/// The exact step if the times of each lever of the program are multiplied by `factor` (rounded to
/// whole nanoseconds). Throws Error (usage) for factors that are negative or exactly 1; else as
/// `simulate`.
std::vector<Effect> sensitivities(const Program& program, const Costs& costs, double factor = 1.01);

/// The value of memory for one more microbatch under 1F1B with warm-up vector K (the shape's, or
/// else the default): for each device r, the step with K(r) + 1 there, and with K raised on the
/// devices before it if they must not have fewer. The costs must be those of the shape's program.
/// Errors as `one_f_one_b`, `lower` and `simulate`.
std::vector<Duration> one_more_in_flight(const ScheduleShape& shape, const Costs& costs,
                                         const LowerOptions& options = {});

/// The value of memory for one more microbatch.
struct OneMore {
  std::optional<int> device;  ///< the device with one more microbatch; nothing: all devices
  std::string with;           ///< "warm-up 5 3 2 1", "group 5", "in flight 5": the setting
  Duration step{0};
  bool operator==(const OneMore&) const = default;
};

/// By the schedule's own parameter: one more warm-up forward on each device in turn (1f1b,
/// dapple-pb; see above), one more microbatch in flight on all devices (automatic schedules), or
/// the next larger group (interleaved schedules: less than a microbatch). Empty for schedules
/// without such a parameter; values that the schedule does not accept are left out.
std::vector<OneMore> one_more_in_flight(const ScheduleKind& kind, const ScheduleShape& shape,
                                        const Costs& costs, const LowerOptions& options = {});

}  // namespace stagecraft
