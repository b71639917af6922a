// What matters: how the step changes when one thing takes longer or shorter.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/lowering/lower.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

/// What can be made faster or slower.
enum class Lever {
  stage,    ///< compute of all chunks of a stage
  device,   ///< compute of all chunks of a device
  op,       ///< one kind of compute everywhere
  channel,  ///< latency and occupancy of one channel
  link,     ///< the same of all channels from one device to another
  group,    ///< one group's collectives
};

struct Effect {
  Lever lever = Lever::stage;
  int index = 0;          ///< stage, device, channel, group; of a link the sending device
  int to = 0;             ///< of a link the receiving device
  Op op = Op::forward;    ///< of an op
  Duration step{0};       ///< with the changed times
  double elasticity = 0;  ///< relative change of the step per relative change of the times
  bool operator==(const Effect&) const = default;
};

/// "stage 2", "link 0 -> 1", "forward".
std::string to_string(const Effect& effect);

/// The exact step when the times behind each lever that the program has are `factor` times what
/// they are (rounded to whole nanoseconds). Throws Error (usage) for factors that are negative or
/// exactly 1, and otherwise as `simulate`.
std::vector<Effect> sensitivities(const Program& program, const Costs& costs, double factor = 1.01);

/// 1F1B with its warm-up vector K (the shape's, or else its own): for each device the step with
/// K(r) + 1 there, and on the devices before it as far as they must not have fewer. What memory for
/// one more microbatch is worth. The costs are of the shape's program. Errors as `one_f_one_b`,
/// `lower` and `simulate`.
std::vector<Duration> one_more_in_flight(const ScheduleShape& shape, const Costs& costs,
                                         const LowerOptions& options = {});

/// What room for one more microbatch is worth.
struct OneMore {
  std::optional<int> device;  ///< that has it; none: all have
  std::string with;           ///< "warm-up 5 3 2 1", "group 5", "in flight 5": the setting
  Duration step{0};
  bool operator==(const OneMore&) const = default;
};

/// By the schedule's own setting: one more forward ahead on each device in turn (1f1b, dapple-pb;
/// see above), one more microbatch in flight on all (automatic schedules), the next larger group
/// (interleaved ones: less than a microbatch). Empty for schedules without such a setting, and
/// without entries that they refuse.
std::vector<OneMore> one_more_in_flight(const ScheduleKind& kind, const ScheduleShape& shape,
                                        const Costs& costs, const LowerOptions& options = {});

}  // namespace stagecraft
