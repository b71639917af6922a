// Questions about plans that shard the model's states in one of several ways.
//
// Each way is a question of its own, searched one after another, each against the best plan of
// those before, which soon rules most of the later ones out. Sharding gradients and parameters,
// too, (ZeRO-2 and 3, Rajbhandari et al. 2020) needs less memory and more messages: it wins where
// all else would recompute or divide the model further.

#pragma once

#include <optional>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The problem has `other_sharding`; the search knows questions without. Its bound is the least of
/// all.
SearchResult search_each_sharding(SearchResult (*search)(const Problem&, const SearchControl&),
                                  const Problem& problem, const SearchControl& control);

/// Of a kind that one of these questions already speaks of, what no plan beyond those searched
/// takes less than.
Duration least_beyond(const Problem& problem, const Plan& plan, Duration least_of_mixed);

/// The one of these questions whose tightest plan is the nearest to fit; of equals, the first.
/// Sharding more needs more memory where there is nobody to share with.
struct NearestToFit {
  Problem problem;
  std::optional<Candidate> plan;  ///< that, where all that may be is recomputed
};
NearestToFit nearest_to_fit(const Problem& problem, const std::stop_token& stop);

}  // namespace stagecraft
