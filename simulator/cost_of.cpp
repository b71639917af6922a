#include "simulator/cost_of.hpp"

namespace stagecraft {

Duration cost_of(const ChunkCosts& costs, Op op) {
  switch (op) {
    case Op::forward: return costs.forward;
    case Op::backward: return costs.backward;
    case Op::backward_input: return costs.backward_input;
    case Op::backward_weight: return costs.backward_weight;
    case Op::recompute: return costs.recompute;
    case Op::update: return costs.update;
    case Op::send_activation:
    case Op::receive_activation:
    case Op::send_gradient:
    case Op::receive_gradient:
    case Op::evict:
    case Op::take_in:
    case Op::give_back:
    case Op::load:
    case Op::send_norm:
    case Op::receive_norm:
    case Op::send_validation:
    case Op::receive_validation:
    case Op::reduce_gradient:
    case Op::reduce_scatter:
    case Op::reduce_tied:
    case Op::reduce_norm:
    case Op::gather_parameters: break;
  }
  return Duration{0};
}

}  // namespace stagecraft
