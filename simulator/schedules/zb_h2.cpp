// ZB-H2 (Qi et al., ICLR 2024): with twice 1F1B's memory a device starts early enough that it never
// waits again.
//
//   device 0   F0 F1 F2 F3 F4 I0 W0 I1 W1 I2 W2 I3 W3 I4 W4 .  .      p = 3, m = 5,
//   device 1   .  F0 F1 F2 I0 F3 I1 F4 I2 W0 I3 W1 I4 W2 W3 W4 .      all equally long
//   device 2   .  .  F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 W1 W2 W3 W4
//
// Device r runs 2(p - r) - 1 forwards, then I and F in turn, and its weight gradients lag behind by
// 2r. Every device is busy from its first instruction to its last, but the last device starts
// (p - 1)f after the first and ends as much later: the bubble is gone only for those who let the
// next iteration begin before this one has ended on all devices.
//
//   longest span   m(f + i + w) + (p - 1) max(0, f + i - 2w)   for m >= 2p - 1
//   step time      m(f + i + w) + (p - 1) max(f, f + i - 2w)
//   held at most   2(p - r) - 1 microbatches until I, 2p - 1 until W
//
// The paper's (p - 1)(f + i - 2w) is negative for a long W; nothing is ever gained beyond zero.

#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"
#include "simulator/schedules/zero_bubble.hpp"

namespace stagecraft {

Schedule zb_h2(const ScheduleShape& shape) {
  require_counts("zb-h2", shape);
  refuse_virtual_stages("zb-h2", shape, "interleaved-zb");
  refuse_group("zb-h2", shape);
  refuse_warm_up("zb-h2", shape);
  refuse_in_flight("zb-h2", shape);

  Schedule schedule = empty_schedule("zb-h2", shape);
  for (int r = 0; r < shape.devices; ++r) {
    schedule.devices[static_cast<std::size_t>(r)] =
        zero_bubble_order(r, shape.microbatches, 2 * (shape.devices - r) - 1, 2 * r);
  }
  return schedule;
}

}  // namespace stagecraft
