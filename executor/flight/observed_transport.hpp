// A transport that writes down in the rank's flight record what it waits for.

#pragma once

#include <memory>

#include "executor/flight/record.hpp"

namespace stagecraft {

/// `record` must outlive it.
std::unique_ptr<Transport> observe(std::unique_ptr<Transport> transport, const Wiring& wiring,
                                   FlightRecord& record);

}  // namespace stagecraft
