// Plans that shard the model's states in one of several ways.
//
// Each way of sharding is one search, with the incumbent of those before, which soon rules most of
// the later ones out. Sharding gradients and parameters, too (ZeRO-2 and 3, Rajbhandari et al.
// 2020), needs less memory and more messages: it wins when the alternatives are recomputation or
// more model parallelism.

#pragma once

#include <optional>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Searches a problem with `other_sharding`; `search` takes problems without. The bound is the
/// lowest of all.
SearchResult search_each_sharding(SearchResult (*search)(const Problem&, const SearchControl&),
                                  const Problem& problem, const SearchControl& control);

/// Lower bound on the plans of this plan's family that were not searched, over all ways of sharding
/// of the problem.
Duration least_beyond(const Problem& problem, const Plan& plan, Duration least_of_mixed);

/// The way of sharding whose plan of minimum memory comes nearest to fitting; of equals, the first.
/// More sharding can need more memory: without replicas there is nothing to share.
struct NearestToFit {
  Problem problem;
  std::optional<Candidate> plan;  ///< that plan of minimum memory, with as much recomputation as
                                  ///< allowed
};
NearestToFit nearest_to_fit(const Problem& problem, const std::stop_token& stop);

}  // namespace stagecraft
