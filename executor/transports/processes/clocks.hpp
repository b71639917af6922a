// The steady clocks of several machines against each other.

#pragma once

#include "executor/transports/processes/carrier.hpp"
#include "executor/transports/transport.hpp"

namespace stagecraft::processes {

/// This process's clock against rank 0's: 0 on the machine that rank 0 is on, else measured by
/// messages to and fro (Cristian 1989): rank 0 reads its clock in the middle of a round trip, give
/// or take half of it; the fastest of 30 counts. All processes call it, when nothing else is under
/// way in this space.
ClockOffset offset_of_clock(Carrier& carrier, int space);

}  // namespace stagecraft::processes
