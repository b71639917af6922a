// Timelines as SVG, for papers and browsers: one row per device, colours for operations, shades for
// the device's stages, numbers for microbatches; shares of time if the boxes would be too narrow.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/values/timeline.hpp"

namespace stagecraft {

struct SvgOptions {
  int width = 1000;  ///< total width in pixels; at least 200
  /// Height per device in pixels, at least 8; nothing: 24, and less for many devices.
  std::optional<int> row_height = {};
  std::optional<Duration> from = {};   ///< start of the drawn interval …
  std::optional<Duration> until = {};  ///< … and its end, drawn over the whole width
  bool transfers = false;              ///< a thin line for each message
  /// By span (see `on_path`): whether it is on the critical path, and outlined in black; its
  /// messages are thick black lines. Empty: no outlines.
  std::vector<char> critical = {};
  /// The time of a forward, which becomes 1 on the axis, for drawings without real durations;
  /// nothing: seconds.
  std::optional<Duration> unit = {};
  std::string title = {};  ///< above the drawing, before step, bubble and memory
  /// For each of the timeline's devices, the devices that it stands for, which name its row
  /// ("devices 0-3"); empty: itself.
  std::vector<std::vector<int>> row_devices = {};
};

/// A complete document without scripts or embedded fonts; equal timelines give equal bytes.
/// Overlapping work of a device (a fused pair) shares the row's height. If boxes are narrower than
/// 3 pixels, each pixel shows shares, one colour above another; if most boxes are, messages and
/// outlines are left out, and the legend says so. With more than 200 devices, those with equal work
/// at equal times share a row (alike_rows.hpp). Throws Error (usage) if the options leave nothing
/// to draw, or no space to draw on.
std::string draw_svg(const Timeline& timeline, const SvgOptions& options = {});

}  // namespace stagecraft
