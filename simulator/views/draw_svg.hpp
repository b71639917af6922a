// Timelines as SVG, for papers and browsers: one row per device, colours for what is done, shades
// for which of the device's stages, numbers for microbatches; shares of time where there are too
// many of them to be seen.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/values/timeline.hpp"

namespace stagecraft {

struct SvgOptions {
  int width = 1000;  ///< pixels in all; at least 200
  /// Pixels of each device, at least 8; none: 24, and lower where there are many devices.
  std::optional<int> row_height = {};
  std::optional<Duration> from = {};   ///< only what happens from here …
  std::optional<Duration> until = {};  ///< … until here, drawn over the whole width
  bool transfers = false;              ///< a thin line for each message
  /// By span (see `on_path`): on the longest chain, and so outlined in black; its messages are
  /// thick black lines. Empty: nothing is.
  std::vector<char> critical = {};
  /// A forward's time, called 1 on the axis, for drawings without real durations; none: seconds.
  std::optional<Duration> unit = {};
  std::string title = {};  ///< above the drawing, before step, bubble and memory
  /// The devices that each of the timeline's stands for, which name its row ("devices 0-3"); empty:
  /// itself.
  std::vector<std::vector<int>> row_devices = {};
};

/// A complete document without scripts or fonts of its own; equal timelines give equal bytes. Work
/// that overlaps other work of its device (a fused pair) shares the row's height with it. Of boxes
/// narrower than 3 pixels each pixel shows the shares, one colour above another; where most of the
/// boxes are, messages and outlines are left out, and the legend says so. Of more than 200 devices
/// those that do the same at the same times share a row (alike_rows.hpp). Throws Error (usage) if
/// the options leave nothing to draw, or nothing to draw on.
std::string draw_svg(const Timeline& timeline, const SvgOptions& options = {});

}  // namespace stagecraft
