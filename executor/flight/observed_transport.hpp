// A transport that reports its waits to the rank's flight record.

#pragma once

#include <memory>

#include "executor/flight/record.hpp"

namespace stagecraft {

/// `record` must outlive it.
std::unique_ptr<Transport> observe(std::unique_ptr<Transport> transport, const Wiring& wiring,
                                   FlightRecord& record);

}  // namespace stagecraft
