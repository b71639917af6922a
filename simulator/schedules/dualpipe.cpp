// DualPipe (DeepSeek-V3 technical report, 2024): two copies of the model in opposite directions, as
// in Chimera, whose forwards and backwards overlap in fused pairs: while one computes, the other's
// messages travel. The order of a device is in overlapped.cpp.
//
//   device 0   F0 F1 F2 f0 i0 w0 f1 (F3+b1) (f2+B0) b2 (f3+B1) b3 I2 W2 I3 W3      p = 4, m = 8:
//   device 1   F0 f0 F1 f1 F2 b0 (f2+B0) (F3+b1) (f3+B1) b2 B2 i3 I3 w3 W3         capitals for the
//   …                                                                              pipe going down
//
// With F&B for a fused pair, b = i + w, and (p / 2 - 1)(i - f) < f:
//
//   step time      m(f + b) + (p / 2 - 1)(F&B + f - b + max(0, i - w))    for F&B = f + b
//   held at most   p + 1 on every device
//
// The report's bubble, (p / 2 - 1)(F&B + b - 3w), is the same where f = i >= w.

#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules/overlapped.hpp"
#include "simulator/schedules/pipes.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

namespace {

void require_even(std::string_view what, int count) {
  if (count % 2 == 0) return;
  fail_usage("dualpipe: both directions take the same share, so the ", what, " must be even, not ",
             count, "; nearest legal value: ", nearest_multiples(count, 2));
}

void require_enough(const ScheduleShape& shape) {
  if (shape.microbatches >= 2 * shape.devices) return;
  fail_usage("dualpipe: ", shape.devices, " devices need at least ", 2 * shape.devices,
             " microbatches, not ", shape.microbatches,
             "; nearest legal value: ", 2 * shape.devices);
}

}  // namespace

Schedule dualpipe(const ScheduleShape& shape) {
  require_counts("dualpipe", shape);
  refuse_virtual_stages("dualpipe", shape, "dualpipev");
  refuse_group("dualpipe", shape);
  refuse_warm_up("dualpipe", shape);
  refuse_in_flight("dualpipe", shape);
  require_even("devices", shape.devices);
  require_enough(shape);
  require_even("microbatches", shape.microbatches);

  Schedule schedule = empty_pipes("dualpipe", shape, 2, shape.microbatches);
  const int p = shape.devices;
  for (int r = 0; r < p; ++r) {
    const int mirror = 2 * p - 1 - r;  // the stage of the pipe that goes up
    const bool first_half = r < p / 2;
    OverlappedOrder order = overlapped_order({.length = p / 2,
                                              .place = first_half ? r : p - 1 - r,
                                              .microbatches = schedule.microbatches,
                                              .inward = first_half ? r : mirror,
                                              .outward = first_half ? mirror : r});
    schedule.devices[static_cast<std::size_t>(r)] = std::move(order.instructions);
    schedule.fused.push_back(std::move(order.fused));
  }
  return schedule;
}

}  // namespace stagecraft
