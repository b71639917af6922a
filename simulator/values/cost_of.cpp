#include "simulator/values/cost_of.hpp"

#include <cassert>

namespace stagecraft {

Duration cost_of(const ChunkCosts& costs, Op op) {
  switch (op) {
    case Op::forward: return costs.forward;
    case Op::backward: return costs.backward;
    case Op::backward_input: return costs.backward_input;
    case Op::backward_weight: return costs.backward_weight;
    case Op::recompute: return costs.recompute;
    case Op::update: return costs.update;
    default: assert(!is_compute(op)); return Duration{0};
  }
}

}  // namespace stagecraft
