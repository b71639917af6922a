// A forward beside another microbatch's backward, as DualPipe has them: the messages between
// experts of each hide behind the computing of the other (DeepSeek-V3 technical report,
// section 3.2.1).

#pragma once

#include <vector>

#include "planner/costs/cost_book.hpp"

namespace stagecraft {

/// The layers that one half of a pair passes; what is referred to outlives it.
struct PairedPass {
  const CostTable& table;
  const LayerRange& layers;
  const std::vector<Recomputed>& again;  ///< of each layer; empty: nothing
};

/// The longest of all computing, all messages, and each half alone.
Duration paired_time(const PairedPass& forward, const PairedPass& backward);

}  // namespace stagecraft
