// A problem as planners see it that know one kind of device, one link.

#pragma once

#include <vector>

#include "planner/search.hpp"

namespace stagecraft {

/// Devices of the cluster that may be used.
int usable_devices(const Problem& problem);
/// Bytes of the first device that may be used; 1e30 where memory is unlimited.
double usable_memory(const Problem& problem);
/// The slowest link among the usable devices; unlimited for a single one.
Link slowest_link(const Problem& problem);
/// Costs of the layers for the first of the problem's microbatch sizes on the first device. Throws
/// Error (input) without any.
std::vector<LayerCost> costs_at(const Problem& problem, int tensor_parallel);
/// Whether the profile has an entry for that.
bool was_measured(const Problem& problem, int tensor_parallel);

}  // namespace stagecraft
