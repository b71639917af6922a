// Chains whose stages have replicas of their own, by their longest stage.
//
// Stages from the end of the model on, for a limit T:
//
//   devices(q, i) = least over j > i of devices(q - 1, j) + r
//
// where layers [i, end) make q stages, and r are the fewest replicas that bring the first of them,
// [i, j), within T: its load, what it idles for the round trip of the stages behind it, and its sum
// of gradients (planner/relaxations/stage_bounds.hpp). Bisection finds the least T for which that
// is as many devices as there are. The fill is not counted, so this is a good plan's beginning and
// no bound.

#pragma once

#include <vector>

#include "planner/relaxations/stage_bounds.hpp"
#include "planner/space/effort.hpp"

namespace stagecraft {

/// With more, stages have few replicas, and equally many do (planner/costs/columns.hpp).
inline constexpr int most_uneven_stages = 12;

/// Whether such chains are looked for: one stage per device under schedules that `StageBounds`
/// knows, and not too many devices and layers.
bool has_uneven_chains(const Space& space, const Setting& setting);

/// Chains on the first so many of the setting's devices: for every number of stages what bisection
/// comes across from the limit on down. Some may not be allowed.
std::vector<Layout> find_uneven_chains(const StageBounds& bounds, int layers, int devices,
                                       Time limit, Effort& effort);

}  // namespace stagecraft
