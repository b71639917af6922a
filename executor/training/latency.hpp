// How long requests take that are only inferred.

#pragma once

#include <vector>

#include "simulator/values/timeline.hpp"

namespace stagecraft {

/// Per microbatch, from the start of its first forward to the end of its last. Stages take the next
/// one as soon as they have handed on the one before, so about as many are under way as there are
/// stages, and never more than two for each.
std::vector<Duration> request_latencies(const Timeline& timeline);

}  // namespace stagecraft
