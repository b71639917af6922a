// The files a timeline can be written to, the same for simulated and measured ones.

#pragma once

#include <map>
#include <string>
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

/// Throws Error (usage) for a malformed range, or one without a drawing.
void require_valid(const TimelineFiles& files);

/// Writes those that are asked for; `about` goes into the trace, and the drawing outlines what is
/// `critical` (by span). Throws Error (input) for a file
/// that cannot be written.
void write_timeline_files(const TimelineFiles& files, const Timeline& timeline,
                          std::map<std::string, std::string> about,
                          const std::vector<char>& critical = {});

}  // namespace stagecraft
