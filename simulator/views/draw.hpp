// Timelines as text: one line per device, digits for microbatches, shades for kinds.

#pragma once

#include <string>
#include <vector>

#include "simulator/values/schedule.hpp"
#include "simulator/values/timeline.hpp"

namespace stagecraft {

struct DrawOptions {
  int width = 100;      ///< columns in all
  bool unicode = true;  ///< █ forward ▓ backward ▒ recompute · idle; else F f . and so on
  bool color = false;   ///< ANSI colours, Okabe-Ito; meaning never depends on them
  bool memory =
      true;  ///< a small graph of memory over time at the right, when the timeline knows it
  /// By span (see `on_path`): on the longest chain. A line below the devices says on which of them
  /// it is, in each column. Empty: no such line.
  std::vector<char> critical = {};
  /// What a timeline's devices are called; empty: their own numbers.
  std::vector<int> device_names = {};
};

/// Device × time. Ends with a legend line. Of more than 16 devices those that do the same at the
/// same times share a row, which has the name of the first and says how many they are ("d0 ×8").
std::string draw(const Timeline& timeline, const DrawOptions& options = {});

/// The order only: one line per device, `F0 F1 B0 …` in torch's grammar (stage omitted when a
/// device holds one stage).
std::string draw(const Schedule& schedule, const DrawOptions& options = {});

}  // namespace stagecraft
