// Timelines as the nvtx.json of the zero-bubble papers' tools, which draw them
// (tools/viz_nsys_events.py of sail-sg/zero-bubble-pipeline-parallelism).

#pragma once

#include <string>

#include "simulator/timeline.hpp"

namespace stagecraft {

/// A list over devices of {type, start_time, end_time, minibatch, stage}, by start; times in
/// nanoseconds from the timeline's own zero. Types are the reader's: F (also for recomputation), B
/// (input gradients and whole backwards), W, and one Optimizer per device and iteration, from its
/// first update to its last. Communication is left out.
std::string write_nvtx(const Timeline& timeline);

}  // namespace stagecraft
