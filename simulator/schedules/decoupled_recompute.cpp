// 1F1B with decoupled recomputation (after Mario, Liu et al., PPoPP 2025): the activations are
// rebuilt before their gradient arrives, while the device would only wait.
//
//   device 0   F0 F1 R0 .  B0 B0 F2 R1 B1 B1 R2 B2 B2      p = 2, m = 3,
//   device 1   .  F0 B0 B0 F1 B1 B1 F2 B2 B2 .  .  .       B takes twice as long as F
//
// The order is 1F1B's with an R right before each B. What makes the difference is that this R waits
// for nothing but its forward, whereas recomputation as an option of a plan belongs to B and waits
// for B's gradient: (m + p - 1)(2f + b). Decoupled, the bubble absorbs the (p - 1)f of
// recomputation on the way back: m(2f + b) + (p - 1)(f + b).
//
// Where B follows its F at once, as on the last device, the activations are still there and nothing
// is recomputed. That saves the first and the last microbatch their R on the critical path:
//
//   step time      m(f + b) + (p - 1)(f + b) + max(0, m - 2)f      for p >= 2

#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view decoupled_recompute_name = "1f1b-decoupled-recompute";

std::vector<Instruction> with_recomputation(const std::vector<Instruction>& order) {
  std::vector<Instruction> extended;
  for (const Instruction& instruction : order) {
    const Instruction forward{Op::forward, instruction.stage, instruction.microbatch};
    const bool fresh = !extended.empty() && extended.back() == forward;
    if (instruction.op == Op::backward && !fresh) {
      extended.push_back({Op::recompute, instruction.stage, instruction.microbatch});
    }
    extended.push_back(instruction);
  }
  return extended;
}

}  // namespace

Schedule decoupled_recompute(const ScheduleShape& shape) {
  require_counts(decoupled_recompute_name, shape);
  refuse_virtual_stages(decoupled_recompute_name, shape);
  refuse_group(decoupled_recompute_name, shape);
  refuse_in_flight(decoupled_recompute_name, shape);

  Schedule schedule = one_f_one_b(shape);
  schedule.name = decoupled_recompute_name;
  for (auto& order : schedule.devices) order = with_recomputation(order);
  return schedule;
}

}  // namespace stagecraft
