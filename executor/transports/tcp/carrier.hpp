// Messages by TCP: a connection between every two processes, and no library.

#pragma once

#include "executor/transports/processes/carrier.hpp"
#include "executor/transports/tcp/rendezvous.hpp"

namespace stagecraft::tcp {

/// Meets the processes of the run that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT speak of.
/// Throws Error (execution) if some of them do not come.
std::unique_ptr<processes::Carrier> make_carrier();

/// Of this rank, with those that it has met already.
std::unique_ptr<processes::Carrier> make_carrier(int rank, Connections connections);

}  // namespace stagecraft::tcp
