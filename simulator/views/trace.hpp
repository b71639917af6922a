// Timelines as JSON files for chrome://tracing and ui.perfetto.dev, with flows for messages and
// counters for memory.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "simulator/values/timeline.hpp"

namespace stagecraft {

/// A timeline with metadata ("plan": its hash, "kind": "predicted" or "measured", …).
struct Trace {
  Timeline timeline;
  std::map<std::string, std::string> about;
  /// For each of the timeline's devices, the devices that it stands for, which name its process
  /// ("devices 0-3"); empty: itself. They are not read back.
  std::vector<std::vector<int>> row_devices = {};
};

/// stagecraft-trace/1 in Chrome's trace format: a process per device, a thread per lane, complete
/// events `F1.3` in microseconds with exact start_ns and duration_ns in `args`, flow arrows from
/// send to receive, memory counters by category.
std::string write_trace(const Trace& trace);

/// Reads such a file back, exactly. Throws Error (input) for other files.
Trace read_trace(const class Json& json);
/// Whether the content is a trace in Perfetto's own format (simulator/views/perfetto.hpp), which
/// only viewers read.
bool is_perfetto_trace(const std::string& content);
/// Reads a trace from a file's content. Throws Error (input) with a message of its own for
/// Perfetto's own format, which `export perfetto` can write.
Trace read_trace(const std::string& content, const std::string& path);

}  // namespace stagecraft
