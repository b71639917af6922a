// Attribution of each device's step to causes, in whole nanoseconds that add up to the step.
//
// A device's own work is known. Its idle time is divided by simulating the same program again under
// better conditions, each run on top of the one before:
//
//   step              as it is                                        s0
//   messages free     every transfer and collective takes no time     s1   exposed = s0 - s1
//   devices equal     besides, each operation's total time is spread
//                     evenly over the devices, and within a device
//                     over its instructions of that operation         s2   fill and drain = s2 -
//                                                                          busy in that run
//
// The rest of the idle time in the second run, s1 - work, is imbalance. Free messages cannot make a
// run slower, since every time is a maximum of sums of costs. Equal devices may be slower than the
// given ones, if the step mostly passes the fast devices; then all idle time of the second run is
// fill and drain.
//
// Under an `Environment`, the event engine makes these runs, and the first one again without memory
// limits. The time that a device waits for memory is measured in the run as it is. The rest of its
// idle time is divided as above, in the order fill and drain, exposed communication, imbalance,
// until nothing is left: one wait may be for memory and for a message, and waiting for another
// device's memory is imbalance. A stopped or slowed device counts as unequal, and work that takes
// longer meanwhile counts as work.

#pragma once

#include <vector>

#include "simulator/engines/events.hpp"

namespace stagecraft {

/// One device's step. The fields add up to it, and none is negative.
struct Attribution {
  Duration compute{0};     ///< forwards and backwards
  Duration recompute{0};   ///< forwards repeated
  Duration optimizer{0};   ///< updates
  Duration fill_drain{0};  ///< idle because of the order of work, even with equal devices and free
                           ///< messages
  Duration imbalance{0};   ///< idle because devices have unequal work
  Duration exposed_communication{0};  ///< the step would be this much shorter with free messages
  Duration waiting_memory{0};         ///< its next forward only lacked memory; 0 without limits
  bool operator==(const Attribution&) const = default;
};

Duration total(const Attribution& attribution);

/// Per device, of one iteration. Throws as `simulate` does.
std::vector<Attribution> attribution(const Program& program, const Costs& costs);
/// The attribution under an environment. Throws as `run_events` does.
std::vector<Attribution> attribution(const Program& program, const Costs& costs,
                                     const Environment& environment);

}  // namespace stagecraft
