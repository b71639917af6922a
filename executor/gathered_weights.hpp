// The model's weights, put together from what the ranks hold of them.

#pragma once

#include <map>
#include <span>
#include <string>

#include "executor/rank_map.hpp"
#include "executor/worker.hpp"

namespace stagecraft {

/// What a rank holds, in words for rank 0; in the precision of sums.
std::string packed_weights(Backend& backend, std::span<const HeldWeight> weights);

/// Whole weights by canonical name, in memory of no backend. All copies of a weight took the same
/// steps: throws Error (execution) naming the first one that differs, and its rank.
std::map<std::string, Tensor> unpack_weights(const Program& program, const RankMap& ranks,
                                             std::span<const std::string> of_ranks);

}  // namespace stagecraft
