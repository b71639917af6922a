// Latencies of inference requests.

#pragma once

#include <vector>

#include "simulator/values/timeline.hpp"

namespace stagecraft {

/// Per microbatch, the time from the start of its first forward to the end of its last. A stage
/// takes the next microbatch as soon as it has sent the one before, so about as many are in flight
/// as there are stages, and at most two per stage.
std::vector<Duration> request_latencies(const Timeline& timeline);

}  // namespace stagecraft
