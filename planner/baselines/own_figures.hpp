// A problem as planners see it that know one kind of device, one link.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Devices of the cluster that may be used.
int usable_devices(const Problem& problem);
/// Bytes that no stages need: a device's memory where it is unlimited.
inline constexpr double unlimited_memory = 1e30;
/// Bytes of the first device that may be used; `unlimited_memory` where it has no limit.
double usable_memory(const Problem& problem);
/// Why a planner has no plan: nothing fits, as it counts, into `memory` of each device; or, where
/// there would be none in unlimited memory either, what else is in the way.
struct NoStages {
  std::string_view strategy;
  std::string none;         ///< "no split over 4 devices"
  std::string_view counts;  ///< "fits the stages' memory, as Piper counts it"
  double memory = 0;        ///< bytes
  std::string otherwise;    ///< what is in the way; empty: only memory is
};
SearchResult no_stages(const NoStages& why);
/// The slowest link among the usable devices; unlimited for a single one.
Link slowest_link(const Problem& problem);
/// Costs of the layers for the first of the problem's microbatch sizes on the first device. Throws
/// Error (input) without any.
std::vector<LayerCost> costs_at(const Problem& problem, int tensor_parallel);
/// Whether the profile has an entry for that.
bool was_measured(const Problem& problem, int tensor_parallel);

}  // namespace stagecraft
