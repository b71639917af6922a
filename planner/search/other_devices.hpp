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
#include <vector>

#include "planner/problem/incumbents.hpp"
#include "planner/space/space.hpp"

namespace stagecraft {

/// A bound by work for plans of every kind; none for a search that was stopped, which has no time
/// for it.
Duration least_of_any_kind(const Space& space, const SearchResult& result);

/// Where the best plan is far from its bound, one that leaves some devices out may be better than
/// what was found on all of them: on fewer there are fewer layouts, and more of them are looked at.
/// Just beyond as many devices as chains are walked on, as many as that.
void search_fewer_devices(const Problem& problem, const Space& space, const SearchControl& control,
                          std::int64_t effort, Leaderboard& board, SearchResult& result);

/// Along the model's own order of layers, and along these others, too, if every order of devices is
/// tried. The result's bound becomes that of all of them, or its scope narrower.
void search_device_orders(const Problem& problem, const std::vector<std::vector<int>>& layer_orders,
                          const Space& space, const SearchControl& control, std::int64_t effort,
                          Leaderboard& board, SearchResult& result);

/// Where devices have links of their own, and too many orders to search each. Gives the answer for
/// the cluster with its best links, which bounds all plans.
SearchResult search_placed(const Problem& problem, const Space& space, const SearchControl& control,
                           std::int64_t effort, Leaderboard& board, SearchResult& result);

/// That answer's bound, for plans on devices in every order; where the best plan is of no kind that
/// was searched, a bound for any kind.
void take_bound(const SearchResult& best_links, const Space& space, SearchResult& result);

}  // namespace stagecraft
