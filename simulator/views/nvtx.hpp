// Timelines as the nvtx.json of the zero-bubble papers' tools, which draw them
// (tools/viz_nsys_events.py of sail-sg/zero-bubble-pipeline-parallelism).

#pragma once

#include <string>

#include "simulator/values/timeline.hpp"

namespace stagecraft {

/// A list over devices of {type, start_time, end_time, minibatch, stage}, by start; times in
/// nanoseconds from the timeline's own zero. Types are the reader's: F (also for recomputation), B
/// (input gradients and whole backwards), W, one Optimizer per device and iteration, from its first
/// update to its last, and for messages that take time SEND_FORWARD, RECV_FORWARD, SEND_BACKWARD,
/// RECV_BACKWARD, which it draws in a row of their own below the device's. The format has no types
/// for collectives and evictions, which are left out.
std::string write_nvtx(const Timeline& timeline);

}  // namespace stagecraft
