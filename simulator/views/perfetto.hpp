// Timelines in Perfetto's own format, a tenth as large as JSON, for large plans.

#pragma once

#include <string>

#include "simulator/views/trace.hpp"

namespace stagecraft {

/// A perfetto.protos.Trace (synthetic track events,
/// perfetto.dev/docs/reference/synthetic-track-event) with what `write_trace` has: a process per
/// device, a track per lane, a slice per instruction in nanoseconds, flows from send to receive,
/// memory by category as counters; what was known about it is the name of the trace's own track.
/// Stagecraft does not read this format.
std::string write_perfetto(const Trace& trace);

}  // namespace stagecraft
