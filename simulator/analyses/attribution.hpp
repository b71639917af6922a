// Where each device's step goes, in whole nanoseconds that add up to the step.
//
// Work is what the device does itself. The rest, its idle time, is told apart by running the same
// program again under better conditions, each run upon the one before:
//
//   step              as it is                                        s0
//   messages free     every transfer and collective takes no time     s1   exposed = s0 - s1
//   devices equal     besides, each operation's total time is spread
//                     evenly over the devices, and within a device
//                     over its instructions of that operation         s2   fill and drain = s2 -
//                                                                          busy in that run
//
// What is left of the idle time in the second run, s1 - work, is imbalance. No run can be slower
// than the one before by removing messages, as every time is a maximum of sums of costs; but equal
// devices may be slower than the given ones (when the devices that the step passes most often are
// the fast ones): then fill and drain is all that is idle in the second run.
//
// Under other conditions than the clock's (`Environment`) the event engine makes these runs, the
// first one once more without memory limits. What a device waited for memory is measured in the run
// as it is; of the rest of its idle time come fill and drain, exposed communication, imbalance,
// each as above as far as something is left: one wait may be for memory and for a message, and what
// a device waits for another one's memory is imbalance. A stopped or slowed device is one of the
// unequal ones, and work that takes longer meanwhile counts as work.

#pragma once

#include <vector>

#include "simulator/engines/events.hpp"

namespace stagecraft {

/// One device's step. The fields add up to it, and none is negative.
struct Attribution {
  Duration compute{0};     ///< forwards and backwards
  Duration recompute{0};   ///< forwards repeated
  Duration optimizer{0};   ///< updates
  Duration fill_drain{0};  ///< idle in the order of work itself: equal devices, free messages
  Duration imbalance{0};   ///< idle because devices have unequal work
  Duration exposed_communication{0};  ///< the step would be this much shorter with free messages
  Duration waiting_memory{0};  ///< its next forward was ready but for memory; without limits 0
  bool operator==(const Attribution&) const = default;
};

Duration total(const Attribution& attribution);

/// Per device, of one iteration. Throws as `simulate` does.
std::vector<Attribution> attribution(const Program& program, const Costs& costs);
/// The same under these conditions. Throws as `run_events` does.
std::vector<Attribution> attribution(const Program& program, const Costs& costs,
                                     const Environment& environment);

}  // namespace stagecraft
