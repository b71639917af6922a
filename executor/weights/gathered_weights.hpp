// The model's weights, put together from what the ranks hold of them.

#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/driver/rank_map.hpp"
#include "executor/training/worker.hpp"

namespace stagecraft {

/// A weight, or the part of it that a rank holds, as it is handed to rank 0: in the process's
/// memory and the precision of sums.
struct HandedWeight {
  int chunk = 0;
  ParameterSpec spec;
  Tensor weight;
};

std::vector<HandedWeight> hand_over(Backend& backend, std::span<const HeldWeight> weights);

/// For a rank 0 in another process.
std::string packed_weights(std::span<const HandedWeight> weights);
std::vector<HandedWeight> unpack_weights(std::string_view packed);

/// Whole weights by canonical name; they may share memory with what was handed over. All copies of
/// a weight took the same steps: throws Error (execution) naming the first one that differs, and
/// its rank.
std::map<std::string, Tensor> put_together(const Program& program, const RankMap& ranks,
                                           std::span<const std::vector<HandedWeight>> of_ranks);

}  // namespace stagecraft
