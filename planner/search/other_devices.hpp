// The exact search takes all devices in the cluster's order. Beside that it tries
//
//   - fewer devices, where the best plan on all of them is far from its bound;
//   - other orders of the devices (planner/space/device_orders.hpp): all of them if they are few,
//     and then the bound covers stages on any devices;
//   - placements of stages, if some pairs of devices have their own links
//     (planner/search/heuristics/placement.hpp).
//
// Faster plans become incumbents, translated to the cluster's devices.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/problem/incumbents.hpp"
#include "planner/space/space.hpp"

namespace stagecraft {

/// The bound by work, which holds for plans of any kind. 0 if the search was interrupted, since the
/// bound takes time.
FamilyBound bound_by_work(PlanFamily family, const Space& space, bool is_interrupted);

/// Searches on fewer devices: there are fewer layouts on fewer devices, so a heuristic search may
/// find a better plan there than on all of them. If slightly more devices than
/// `most_devices_walked` are available, it searches on exactly that many.
SearchCounts search_fewer_devices(const Problem& problem, const Space& space,
                                  const SearchControl& control, std::int64_t effort,
                                  Leaderboard& board);

/// Searches other orders of the devices, along the model's own order of layers, and also along
/// `layer_orders` if every order of devices is tried. Returns `known` with the new bounds: either
/// they cover all orders, or the families left out are listed.
Searched search_device_orders(const Problem& problem,
                              const std::vector<std::vector<int>>& layer_orders, const Space& space,
                              const SearchControl& control, std::int64_t effort, Leaderboard& board,
                              Searched known);

/// The result of `search_placed`.
struct PlacedSearch {
  /// The answer for the cluster with the best links at each level; its bound holds for all plans.
  std::optional<SearchResult> best_links;
  Searched searched;  ///< bounds and counts of the search on the cluster itself
};

/// Searches placements on a cluster with links of single pairs of devices, if there are too many
/// orders to search each.
PlacedSearch search_placed(const Problem& problem, const Space& space, const SearchControl& control,
                           std::int64_t effort, Leaderboard& board);

}  // namespace stagecraft
