// Timelines as text: one line per device, digits for microbatches, shades for kinds.

#pragma once

#include <string>
#include <vector>

#include "simulator/values/schedule.hpp"
#include "simulator/values/timeline.hpp"

namespace stagecraft {

struct DrawOptions {
  int width = 100;      ///< total width in columns
  bool unicode = true;  ///< █ forward ▓ backward ▒ recompute · idle; else F f . and so on
  bool color = false;   ///< ANSI colours, Okabe-Ito; meaning never depends on them
  bool memory =
      true;  ///< a small graph of memory over time at the right, if the timeline has memory
  /// By span (see `on_path`): whether it is on the critical path. A line below the devices then
  /// shows, per column, the device that the path is on. Empty: no such line.
  std::vector<char> critical = {};
  /// Names of the timeline's devices; empty: their own numbers.
  std::vector<int> device_names = {};
};

/// Device × time, with a legend line at the end. With more than 16 devices, those with equal work
/// at equal times share a row, which has the name of the first and their number ("d0 ×8").
std::string draw(const Timeline& timeline, const DrawOptions& options = {});

/// The order only: one line per device, `F0 F1 B0 …` in torch's grammar (stage omitted when a
/// device holds one stage).
std::string draw(const Schedule& schedule, const DrawOptions& options = {});

}  // namespace stagecraft
