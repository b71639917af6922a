// A problem from the view of planners with one kind of device and one link.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Devices of the cluster that may be used.
int usable_devices(const Problem& problem);
/// A device's memory in bytes if it is unlimited; more than any stage needs.
inline constexpr double unlimited_memory = 1e30;
/// Usable bytes of the first device; `unlimited_memory` if it has no limit.
double usable_memory(const Problem& problem);
/// The reason why a planner has no plan: no stages fit, by its own count, in `memory` of each
/// device; or, if there would be none in unlimited memory either, another reason.
struct NoStages {
  std::string_view strategy;
  std::string none;         ///< "no split over 4 devices"
  std::string_view counts;  ///< "fits the stages' memory, as Piper counts it"
  double memory = 0;        ///< bytes
  std::string otherwise;    ///< the other reason; empty: memory is the only one
};
SearchResult no_stages(const NoStages& why);
/// The slowest link among the usable devices; unlimited for a single one.
Link slowest_link(const Problem& problem);
/// The layers' costs for the first of the problem's microbatch sizes on the first device. Throws
/// Error (input) if there are none.
std::vector<LayerCost> costs_at(const Problem& problem, int tensor_parallel);
/// Whether the profile has an entry for these costs.
bool was_measured(const Problem& problem, int tensor_parallel);

}  // namespace stagecraft
