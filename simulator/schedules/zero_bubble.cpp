#include "simulator/schedules/zero_bubble.hpp"

namespace stagecraft {

std::vector<Instruction> zero_bubble_order(const std::vector<Instruction>& forwards,
                                           const std::vector<Instruction>& inputs, int warm_up,
                                           int lag) {
  std::vector<Instruction> order;
  auto forward = forwards.begin();
  auto weight = inputs.begin();
  const auto add_weight = [&] {
    order.push_back({Op::backward_weight, weight->stage, weight->microbatch});
    ++weight;
  };
  while (forward != forwards.end() && forward - forwards.begin() < warm_up) {
    order.push_back(*forward++);
  }
  for (auto input = inputs.begin(); input != inputs.end(); ++input) {
    order.push_back(*input);
    if (input + 1 - weight > lag) add_weight();
    if (forward != forwards.end()) order.push_back(*forward++);
  }
  while (weight != inputs.end()) add_weight();
  return order;
}

std::vector<Instruction> zero_bubble_order(int stage, int microbatches, int warm_up, int lag) {
  std::vector<Instruction> forwards;
  std::vector<Instruction> inputs;
  for (int m = 0; m < microbatches; ++m) {
    forwards.push_back({Op::forward, stage, m});
    inputs.push_back({Op::backward_input, stage, m});
  }
  return zero_bubble_order(forwards, inputs, warm_up, lag);
}

}  // namespace stagecraft
