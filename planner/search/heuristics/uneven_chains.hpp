// Chains whose stages have different numbers of replicas, chosen to minimise the longest stage.
//
// A dynamic program from the end of the model, for a cutoff T:
//
//   devices(q, i) = least over j > i of devices(q - 1, j) + r
//
// where layers [i, end) make q stages, and r is the smallest number of replicas with which the
// first of them, [i, j), is within T: its load, its idle time for the round trip of the stages
// behind it, and its sum of gradients (planner/relaxations/stage_bounds.hpp). Bisection finds the
// least T for which the devices suffice. The fill is not counted, so the result is a good start and
// no lower bound.

#pragma once

#include <vector>

#include "planner/relaxations/stage_bounds.hpp"
#include "planner/space/effort.hpp"

namespace stagecraft {

/// Maximum number of stages. With more, each stage has few replicas, and equal numbers of them are
/// good enough (planner/costs/columns.hpp).
inline constexpr int most_uneven_stages = 12;

/// Whether uneven chains are searched for the setting: one stage per device under a schedule that
/// `StageBounds` supports, and not too many devices and layers.
bool has_uneven_chains(const Space& space, const Setting& setting);

/// Chains on the first `devices` of the setting's devices: for every number of stages, those found
/// during bisection below the limit. The space may not allow some of them.
std::vector<Layout> find_uneven_chains(const StageBounds& bounds, int layers, int devices,
                                       Time limit, Effort& effort);

}  // namespace stagecraft
