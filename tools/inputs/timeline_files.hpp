// The files that a timeline can be written to, for simulated and measured timelines alike.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/values/timeline.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Paths from the flags; empty for none.
struct TimelineFiles {
  std::string trace, svg, nvtx;
  std::string range;  ///< time range of the drawing: "10ms..50ms"
};

/// --trace --svg --range --nvtx.
void declare_timeline_files(CLI::App& app, TimelineFiles& files);

/// Throws Error (usage) for a malformed range, or a range without a drawing, and Error (execution)
/// for a file whose folder does not exist.
void require_valid(const TimelineFiles& files);

/// Texts of a drawing, beside its figures; empty: none.
struct DrawingWords {
  std::string title;
  /// For each of the timeline's devices, the devices that it stands for, which name its row; empty:
  /// itself.
  std::vector<std::vector<int>> rows;
};

/// Whether a file of this name is in Perfetto's own format: ".pftrace", ".perfetto-trace" or ".pb".
bool is_native_trace(std::string_view name);

/// Writes the requested files; the name's extension determines the format of a trace. `about` is
/// metadata for the trace, and the drawing outlines spans that are `critical`. Throws Error
/// (execution) for a file that cannot be written.
void write_timeline_files(const TimelineFiles& files, const Timeline& timeline,
                          std::map<std::string, std::string> about,
                          const std::vector<char>& critical = {}, const DrawingWords& words = {});

}  // namespace stagecraft
