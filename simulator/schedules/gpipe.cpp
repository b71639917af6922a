// GPipe (Huang et al., NeurIPS 2019): every device runs all forwards, then all backwards.
//
//   device 0   F0 F1 F2 F3 .  .  .  .  .  .  B0 B0 B1 B1 B2 B2 B3 B3      p = 3, m = 4,
//   device 1   .  F0 F1 F2 F3 .  .  .  B0 B0 B1 B1 B2 B2 B3 B3 .  .       B takes twice as
//   device 2   .  .  F0 F1 F2 F3 B0 B0 B1 B1 B2 B2 B3 B3 .  .  .  .       long as F
//
// Step time (m + p - 1)(f + b); every device keeps the activations of all m microbatches. Running
// the backwards last first would take as long; we run them in ascending order, as all schedules do,
// so that gradients sum alike.

#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

Schedule gpipe(const ScheduleShape& shape) {
  require_counts("gpipe", shape);
  refuse_virtual_stages("gpipe", shape);
  refuse_group("gpipe", shape);
  refuse_warm_up("gpipe", shape);
  refuse_in_flight("gpipe", shape);

  Schedule schedule = empty_schedule("gpipe", shape);
  for (int device = 0; device < shape.devices; ++device) {
    auto& order = schedule.devices[static_cast<std::size_t>(device)];
    for (int m = 0; m < shape.microbatches; ++m) order.push_back({Op::forward, device, m});
    for (int m = 0; m < shape.microbatches; ++m) order.push_back({Op::backward, device, m});
  }
  return schedule;
}

}  // namespace stagecraft
