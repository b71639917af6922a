// Interleaved 1F1B (Narayanan et al., SC 2021): 1F1B over v stages per device, stage s on device s
// mod p.
//
//   device 0   F0 F1 f0 f1 F2 b0 F3 b1 f2 B0 f3 B1 b2 b3 B2 B3      p = 2, v = 2, m = 4, N = 2:
//   device 1   F0 F1 f0 b0 f1 b1 F2 B0 F3 B1 f2 b2 f3 b3 B2 B3      capitals for stages 0 and 1,
//                                                                   small letters for 2 and 3
//
// Microbatches come in groups of N (default p). A device takes a whole group through its first
// stage, then through its second, and so on: position q of that list is its q-th forward, and, with
// the stages reversed, its q-th backward. The warm-up of device r is 2(p - r - 1) + (v - 1)N
// forwards; then forward and backward alternate.
//
//   step time      m(f + b) + (p - 1)(f + b) / v
//   held at most   2(p - r - 1) + (v - 1)N + 1 of the device's m v stage activations
//
// The next stage's forward of a group's first microbatch can run without a gap only if the group
// lasts a whole round trip, N >= p. That holds for the ragged last group too: with 0 < m mod N < p
// devices would wait for each other.

#include <algorithm>

#include "simulator/schedules/groups.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

namespace {

std::vector<Instruction> device_order(const ScheduleShape& shape, int group, int device) {
  const std::vector<Turn> forwards = forward_turns(shape, group);
  const int warm_up = 2 * (shape.devices - device - 1) + (shape.virtual_stages - 1) * group;
  std::vector<Instruction> order;
  std::size_t next = 0;
  const auto forward = [&] {
    order.push_back(instruction_of(Op::forward, forwards[next++], shape, device));
  };
  while (next < std::min(static_cast<std::size_t>(warm_up), forwards.size())) forward();
  for (const Turn& turn : backward_turns(shape, group)) {
    if (next < forwards.size()) forward();
    order.push_back(instruction_of(Op::backward, turn, shape, device));
  }
  return order;
}

/// With one stage per device there is nothing to interleave.
Schedule one_f_one_b_as_interleaved(ScheduleShape shape) {
  shape.group.reset();
  Schedule schedule = one_f_one_b(shape);
  schedule.name = "interleaved";
  return schedule;
}

}  // namespace

Schedule interleaved(const ScheduleShape& shape) {
  require_counts("interleaved", shape);
  refuse_warm_up("interleaved", shape);
  refuse_in_flight("interleaved", shape);
  if (shape.virtual_stages == 1) return one_f_one_b_as_interleaved(shape);
  const int group = group_of("interleaved", shape);

  Schedule schedule = empty_schedule("interleaved", shape);
  for (int r = 0; r < shape.devices; ++r) {
    schedule.devices[static_cast<std::size_t>(r)] = device_order(shape, group, r);
  }
  return schedule;
}

}  // namespace stagecraft
