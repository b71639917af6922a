// Looped breadth-first (Lamy-Poirier, MLSys 2023): GPipe over v stages per device, stage s on
// device s mod p. All microbatches pass a device's first stage, then all its second, and so on; the
// backwards take the stages in reverse.
//
//   device 0   F0 F1 F2 f0 f1 f2 .  .  .  b0 b0 b1 b1 b2 b2 B0 B0 B1 B1 B2 B2      p = 2, v = 2,
//   device 1   .  F0 F1 F2 f0 f1 f2 b0 b0 b1 b1 b2 b2 B0 B0 B1 B1 B2 B2 .  .       m = 3: capitals
//                                                      for stages 0 and 1, small letters for 2 and
//                                                      3
//
// Each stage works without a break in either direction. Sharded weights are gathered only twice per
// iteration, and a stage's gradients can be summed over its replicas while the next stage computes.
// The price is memory: all m v stage activations are held.
//
//   step time      m(f + b) + (p - 1)(f + b) / v for m >= p
//
// The backwards ascend here as in all our schedules, so that gradients sum alike. PyTorch's
// ScheduleLoopedBFS runs them in descending order, which takes the same time.

#include "simulator/schedules/groups.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

Schedule looped_bfs(const ScheduleShape& shape) {
  require_counts("looped-bfs", shape);
  refuse_group("looped-bfs", shape);
  refuse_warm_up("looped-bfs", shape);
  refuse_in_flight("looped-bfs", shape);

  Schedule schedule = empty_schedule("looped-bfs", shape);
  for (int r = 0; r < shape.devices; ++r) {
    auto& order = schedule.devices[static_cast<std::size_t>(r)];
    for (const Turn& turn : forward_turns(shape, shape.microbatches)) {
      order.push_back(instruction_of(Op::forward, turn, shape, r));
    }
    for (const Turn& turn : backward_turns(shape, shape.microbatches)) {
      order.push_back(instruction_of(Op::backward, turn, shape, r));
    }
  }
  return schedule;
}

}  // namespace stagecraft
