// A forward overlapped with another microbatch's backward, as in DualPipe: the token exchange of
// each hides behind the compute of the other (DeepSeek-V3 technical report, section 3.2.1).

#pragma once

#include <vector>

#include "planner/costs/cost_book.hpp"

namespace stagecraft {

/// One half of a pair: its layers and their costs. The references must outlive it.
struct PairedPass {
  const CostTable& table;
  const LayerRange& layers;
  const std::vector<Recomputed>& again;  ///< recomputation of each layer; empty: none
};

/// The maximum of: all compute, all messages, and each half alone.
Duration paired_time(const PairedPass& forward, const PairedPass& backward);

}  // namespace stagecraft
