// Blocks shared out among devices at the least cost: a knapsack over what each of them can have
// (BlockPacking::all_choices).

#pragma once

#include <functional>

#include "planner/block_packing.hpp"

namespace stagecraft {

struct BlockCover {
  double value = 0;
  std::vector<const BlockChoice*> choices;  ///< of each device, among those given
};

/// So many blocks in all; nothing if devices cannot have that many. The first of equal choices
/// wins.
std::optional<BlockCover> least_cover(
    const std::vector<BlockChoices>& choices, int blocks,
    const std::function<double(int device, const BlockChoice& choice)>& cost);

}  // namespace stagecraft
