// calibrate PLAN TRACE: from a measured timeline to a profile, and how much closer it predicts.

#pragma once

#include <string>

#include "tools/console.hpp"

namespace stagecraft {

/// Paths as the user gave them; empty for files that are not wanted.
struct TimelineCalibration {
  std::string plan, trace;
  std::string cluster_file, plan_file;
};

/// Writes the profile to -o. Throws Error (input) for a timeline that is not one of this plan's
/// runs, or is cut short.
int calibrate_by_timeline(Console& console, const TimelineCalibration& calibration);

}  // namespace stagecraft
