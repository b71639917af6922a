// `calibrate PLAN TRACE`: makes a profile from a measured timeline, and shows how much closer its
// predictions are.

#pragma once

#include <string>

#include "tools/console.hpp"

namespace stagecraft {

/// Paths as the user gave them; empty for files that are not requested.
struct TimelineCalibration {
  std::string plan, trace;
  std::string cluster_file, plan_file;
};

/// Writes the profile to -o. Throws Error (input) for a timeline that is not from a run of this
/// plan, or is incomplete.
int calibrate_by_timeline(Console& console, const TimelineCalibration& calibration);

}  // namespace stagecraft
