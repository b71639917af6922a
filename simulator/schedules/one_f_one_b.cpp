// 1F1B: PipeDream-flush (Narayanan et al., 2021), DAPPLE's early backward (Fan et al., PPoPP 2021),
// Megatron's and DeepSpeed's default. Device r runs K(r) forwards, then alternates one backward and
// one forward, then drains.
//
//   device 0   F0 F1 F2 .  .  .  .  B0 B0 F3 B1 B1 .  B2 B2 .  B3 B3      p = 3, m = 4,
//   device 1   .  F0 F1 .  .  B0 B0 F2 B1 B1 F3 B2 B2 .  B3 B3 .  .       B takes twice as
//   device 2   .  .  F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 .  .  .  .       long as F
//
// By default K(r) = p - r, the least that keeps equal stages busy: (m + p - 1)(f + b) as for GPipe,
// but device r keeps at most p - r microbatches. A transfer latency c then costs
// 2c(n - floor(n / p)) with n = m + p - 2, since the window is exactly as deep as the pipeline.
// K(r) = 2(p - r) - 1 (DAPPLE's policy B) buys that back with memory: latency costs only 2c(p - 1)
// while 2c <= f + b.
//
// K must not grow along the pipeline: device r + 1 asks for K(r + 1) forwards before its first
// backward, and device r has sent only K(r) when it starts to wait for that backward.

#include <algorithm>

#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

namespace {

std::vector<Instruction> device_order(int stage, int microbatches, int warm_up) {
  std::vector<Instruction> order;
  int forwards = 0;
  for (; forwards < warm_up; ++forwards) order.push_back({Op::forward, stage, forwards});
  for (int m = 0; m < microbatches; ++m) {
    order.push_back({Op::backward, stage, m});
    if (forwards < microbatches) order.push_back({Op::forward, stage, forwards++});
  }
  return order;
}

}  // namespace

Schedule one_f_one_b(const ScheduleShape& shape) {
  require_counts("1f1b", shape);
  refuse_virtual_stages("1f1b", shape);
  refuse_group("1f1b", shape);
  refuse_in_flight("1f1b", shape);
  require_warm_up("1f1b", shape);

  Schedule schedule = empty_schedule("1f1b", shape);
  for (int r = 0; r < shape.devices; ++r) {
    const auto device = static_cast<std::size_t>(r);
    const int wanted = shape.warm_up.empty() ? shape.devices - r : shape.warm_up[device];
    schedule.devices[device] =
        device_order(r, shape.microbatches, std::min(wanted, shape.microbatches));
  }
  return schedule;
}

}  // namespace stagecraft
