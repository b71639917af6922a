// Timelines as SVG, for papers and browsers: one row per device, colours for what is done, shades
// for which of the device's stages, numbers for microbatches.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/values/timeline.hpp"

namespace stagecraft {

struct SvgOptions {
  int width = 1000;                    ///< pixels in all; at least 200
  int row_height = 24;                 ///< pixels of each device
  std::optional<Duration> from = {};   ///< only what happens from here …
  std::optional<Duration> until = {};  ///< … until here, drawn over the whole width
  bool transfers = false;              ///< a thin line for each message
  /// By span (see `on_path`): on the longest chain, and so outlined in black; its messages are
  /// thick black lines. Empty: nothing is.
  std::vector<char> critical = {};
  /// A forward's time, called 1 on the axis, for drawings without real durations; none: seconds.
  std::optional<Duration> unit = {};
};

/// A complete document without scripts or fonts of its own; equal timelines give equal bytes. Work
/// that overlaps other work of its device (a fused pair) shares the row's height with it. Throws
/// Error (usage) if the options leave nothing to draw on.
std::string draw_svg(const Timeline& timeline, const SvgOptions& options = {});

}  // namespace stagecraft
