// The files a timeline can be written to, the same for simulated and measured ones.

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

/// Paths, empty for none, as flags give them.
struct TimelineFiles {
  std::string trace, svg, nvtx;
  std::string range;  ///< of the drawing: "10ms..50ms"
};

/// --trace --svg --range --nvtx.
void declare_timeline_files(CLI::App& app, TimelineFiles& files);

/// Throws Error (usage) for a malformed range, or one without a drawing, and Error (execution) for
/// a file whose folder is not there.
void require_valid(const TimelineFiles& files);

/// What a drawing says of the timeline, beside its numbers; empty: nothing.
struct DrawingWords {
  std::string title;
  /// The devices that each of the timeline's stands for, by which its row is named; empty: itself.
  std::vector<std::vector<int>> rows;
};

/// Whether a file of this name is in Perfetto's own format: ".pftrace", ".perfetto-trace" or ".pb".
bool is_native_trace(std::string_view name);

/// Writes those that are asked for, a trace by the ending of its name; `about` goes into the trace,
/// and the drawing outlines what is `critical` (by span). Throws Error (execution) for a file that
/// cannot be written.
void write_timeline_files(const TimelineFiles& files, const Timeline& timeline,
                          std::map<std::string, std::string> about,
                          const std::vector<char>& critical = {}, const DrawingWords& words = {});

}  // namespace stagecraft
