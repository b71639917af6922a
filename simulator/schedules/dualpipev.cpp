// DualPipeV (DeepSeek, 2025): DualPipe cut in half. One copy of the model, folded into a V as for
// ZB-V: the way down takes the part of DualPipe's own direction, the way up that of the other, and
// the last device that of the middle. The order of a device is in overlapped.cpp.
//
//   device 0   F0 F1 F2 f0 i0 w0 f1 (F3+b1) (f2+B0) b2 (f3+B1) b3 I2 W2 I3 W3      p = 2, m = 4:
//   device 1   F0 f0 F1 f1 F2 b0 (f2+B0) (F3+b1) (f3+B1) b2 B2 i3 I3 w3 W3         capitals for the
//                                                                                  way down
// With f, i, w, b and F&B for half a device's layers, and (p - 1)(i - f) < f:
//
//   step time      2m(f + b) + (p - 1)(F&B + f - b + max(0, i - w))       for F&B = f + b
//   held at most   2p + 1 stage activations on every device

#include "profiles/error.hpp"
#include "simulator/schedules/overlapped.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

Schedule dualpipev(const ScheduleShape& shape) {
  require_counts("dualpipev", shape);
  require_two_virtual_stages("dualpipev", shape);
  refuse_group("dualpipev", shape);
  refuse_warm_up("dualpipev", shape);
  refuse_in_flight("dualpipev", shape);
  if (shape.microbatches < 2 * shape.devices) {
    fail_usage("dualpipev: ", shape.devices, " devices need at least ", 2 * shape.devices,
               " microbatches, not ", shape.microbatches,
               "; nearest legal value: ", 2 * shape.devices);
  }

  Schedule schedule = empty_schedule("dualpipev", shape, StagePlacement::vee);
  const int p = shape.devices;
  for (int r = 0; r < p; ++r) {
    OverlappedOrder order = overlapped_order({.length = p,
                                              .place = r,
                                              .microbatches = shape.microbatches,
                                              .inward = r,
                                              .outward = 2 * p - 1 - r});
    schedule.devices[static_cast<std::size_t>(r)] = std::move(order.instructions);
    schedule.fused.push_back(std::move(order.fused));
  }
  return schedule;
}

}  // namespace stagecraft
