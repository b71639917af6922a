// The links that a measured timeline's messages and collectives took: see timeline_costs.hpp.

#pragma once

#include "planner/calibration/timeline_costs.hpp"

namespace stagecraft {

/// Fits the profile's hand-over and the cluster's links to the steps' messages (from handed over to
/// arrived) and collectives (from when the last member came), and says what has changed.
std::vector<LinkTimes> fit_links(const Compiled& compiled, const std::vector<MeasuredStep>& steps,
                                 Profile& profile, Cluster& cluster);

}  // namespace stagecraft
