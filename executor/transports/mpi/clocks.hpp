// The steady clocks of several machines against each other.

#pragma once

#include <mpi.h>

#include "executor/transport.hpp"

namespace stagecraft::mpi {

/// This rank's clock against rank 0's, by messages to and fro (Cristian 1989): rank 0 reads its
/// clock in the middle of a round trip, give or take half of it; the fastest of `rounds` counts.
/// All ranks of the communicator call it.
ClockOffset measured_offset(MPI_Comm communicator, int rounds);

/// 0 on the machine that rank 0 is on, else measured. All ranks of the communicator call it.
ClockOffset offset_of_clock(MPI_Comm communicator);

}  // namespace stagecraft::mpi
