// ZB-H1 (Qi et al., ICLR 2024): 1F1B whose backward is split in two. Only the input gradient I is
// on the way to the device before; the weight gradient W waits until it fits.
//
//   device 0   F0 F1 F2 .  .  I0 W0 F3 I1 W1 I2 W2 I3 W3      p = 3, m = 4,
//   device 1   .  F0 F1 .  I0 F2 I1 W0 F3 I2 W1 I3 W2 W3      all equally long
//   device 2   .  .  F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
//
// Device r runs p - r forwards, then I and F in turn as 1F1B does, and lets its weight gradients
// lag behind by r: the later the device, the earlier it has to answer, and the more W it keeps for
// the end, where 1F1B idles.
//
//   step time      m(f + i + w) + (p - 1)(f + max(0, i - w)) for m >= p, i <= f + w
//   held at most   p - r microbatches until I, min(p, m) until W: as 1F1B's first device
//
// The paper's (p - 1)(f + i - w) holds for w <= i only: a long W delays nobody, but shortens
// nothing either, since the forwards still have to reach the last device.

#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"
#include "simulator/schedules/zero_bubble.hpp"

namespace stagecraft {

Schedule zb_h1(const ScheduleShape& shape) {
  require_counts("zb-h1", shape);
  refuse_virtual_stages("zb-h1", shape, "interleaved-zb");
  refuse_group("zb-h1", shape);
  refuse_warm_up("zb-h1", shape);
  refuse_in_flight("zb-h1", shape);

  Schedule schedule = empty_schedule("zb-h1", shape);
  for (int r = 0; r < shape.devices; ++r) {
    schedule.devices[static_cast<std::size_t>(r)] =
        zero_bubble_order(r, shape.microbatches, shape.devices - r, r);
  }
  return schedule;
}

}  // namespace stagecraft
