#include "planner/costs/paired_passes.hpp"

#include <algorithm>

namespace stagecraft {

Duration paired_time(const PairedPass& forward, const PairedPass& backward) {
  const Duration ahead = forward.table.forward(forward.layers);
  const Duration back = backward.table.times(backward.layers, backward.again).backward;
  const Duration messages = forward.table.forward_exchange(forward.layers) +
                            backward.table.backward_exchange(backward.layers);
  return std::max({ahead + back - messages, messages, ahead, back});
}

}  // namespace stagecraft
