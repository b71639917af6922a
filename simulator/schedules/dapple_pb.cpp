// DAPPLE's policy B (Fan et al., PPoPP 2021): 1F1B with the deeper warm-up K(r) = 2(p - r) - 1.
//
//   device 0   F0 F1 F2 F3 .  .  .  B0 B0 .  B1 B1 .  B2 B2 .  B3 B3      p = 3, m = 4,
//   device 1   .  F0 F1 F2 .  B0 B0 F3 B1 B1 .  B2 B2 .  B3 B3 .  .       B takes twice as
//   device 2   .  .  F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 .  .  .  .       long as F
//
// Neighbours differ by two microbatches instead of one, so that a message may travel while both
// devices compute. Without latency the step takes as long as 1F1B's. With latency c per message it
// takes (m + p - 1)(f + b) + 2c(p - 1) while 2c <= f + b, where 1F1B pays about 2c per microbatch.
// It also rides out jitter best of all synchronous schedules. Device r holds at most
// min(2(p - r) - 1, m) microbatches.

#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

Schedule dapple_pb(const ScheduleShape& shape) {
  require_counts("dapple-pb", shape);
  refuse_virtual_stages("dapple-pb", shape);
  refuse_group("dapple-pb", shape);
  refuse_warm_up("dapple-pb", shape);
  refuse_in_flight("dapple-pb", shape);

  ScheduleShape deep = shape;
  for (int r = 0; r < shape.devices; ++r) deep.warm_up.push_back(2 * (shape.devices - r) - 1);
  Schedule schedule = one_f_one_b(deep);
  schedule.name = "dapple-pb";
  return schedule;
}

}  // namespace stagecraft
