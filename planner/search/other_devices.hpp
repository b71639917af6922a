// The exact search takes all devices in the cluster's order. Beside that it tries
//
//   - fewer devices, where the best plan on all of them is far from its bound;
//   - other orders of the devices (planner/space/device_orders.hpp): all of them if they are few,
//     and then the bound covers stages on any devices;
//   - the best places where devices have links of their own
//     (planner/search/heuristics/placement.hpp).
//
// Faster plans become incumbents, as plans for the devices themselves.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/problem/incumbents.hpp"
#include "planner/space/space.hpp"

namespace stagecraft {

/// The bound by work, which holds for plans of every kind; of a search that was interrupted, which
/// has no time for it, 0.
FamilyBound bound_by_work(PlanFamily family, const Space& space, bool is_interrupted);

/// Where the best plan is far from its bound, one that leaves some devices out may be better than
/// what was found on all of them: on fewer there are fewer layouts, and more of them are looked at.
/// Just beyond as many devices as chains are walked on, as many as that.
SearchCounts search_fewer_devices(const Problem& problem, const Space& space,
                                  const SearchControl& control, std::int64_t effort,
                                  Leaderboard& board);

/// Along the model's own order of layers, and along these others, too, if every order of devices is
/// tried. Adds to what is known: the bound becomes that of all of them, or its scope narrower.
Searched search_device_orders(const Problem& problem,
                              const std::vector<std::vector<int>>& layer_orders, const Space& space,
                              const SearchControl& control, std::int64_t effort, Leaderboard& board,
                              Searched known);

/// What was found where devices have links of their own.
struct PlacedSearch {
  /// The answer for the cluster with its best links, which bounds all plans.
  std::optional<SearchResult> best_links;
  Searched searched;  ///< on the cluster itself
};

/// Where devices have links of their own, and too many orders to search each.
PlacedSearch search_placed(const Problem& problem, const Space& space, const SearchControl& control,
                           std::int64_t effort, Leaderboard& board);

}  // namespace stagecraft
