// Interleaved zero bubble (PyTorch's ScheduleInterleavedZeroBubble): ZB-H1 over v stages per
// device, stage s on device s mod p.
//
//   device 0   F0 F1 f0 f1 i0 w0 F2 i1 w1 F3 I0 W0 f2 I1 W1 f3 …      p = 2, v = 2, m = 4, N = 2:
//   device 1   F0 F1 f0 i0 f1 i1 w0 F2 I0 w1 F3 I1 W0 f2 i2 W1 …      capitals for stages 0 and 1,
//                                                                     small letters for 2 and 3
//
// The groups of N microbatches are those of `interleaved`, but the warm-up of device r is only
// (v - 1)N + p - r forwards: since I is shorter than a whole backward, one step per device suffices
// where `interleaved` takes two. Weight gradients lag behind by r.
//
//   step time      m(f + i + w) + (p - 1)(f + max(0, i - w)) / v for N = p
//   held at most   (v - 1)N + p stage activations until W

#include "simulator/schedules/groups.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"
#include "simulator/schedules/zero_bubble.hpp"

namespace stagecraft {

namespace {

std::vector<Instruction> instructions(Op op, const std::vector<Turn>& turns,
                                      const ScheduleShape& shape, int device) {
  std::vector<Instruction> list;
  for (const Turn& turn : turns) list.push_back(instruction_of(op, turn, shape, device));
  return list;
}

/// With one stage per device there is nothing to interleave.
Schedule zb_h1_as_interleaved_zb(ScheduleShape shape) {
  shape.group.reset();
  Schedule schedule = zb_h1(shape);
  schedule.name = "interleaved-zb";
  return schedule;
}

}  // namespace

Schedule interleaved_zb(const ScheduleShape& shape) {
  require_counts("interleaved-zb", shape);
  refuse_warm_up("interleaved-zb", shape);
  refuse_in_flight("interleaved-zb", shape);
  if (shape.virtual_stages == 1) return zb_h1_as_interleaved_zb(shape);
  const int group = group_of("interleaved-zb", shape);

  Schedule schedule = empty_schedule("interleaved-zb", shape);
  for (int r = 0; r < shape.devices; ++r) {
    const int warm_up = (shape.virtual_stages - 1) * group + shape.devices - r;
    schedule.devices[static_cast<std::size_t>(r)] = zero_bubble_order(
        instructions(Op::forward, forward_turns(shape, group), shape, r),
        instructions(Op::backward_input, backward_turns(shape, group), shape, r), warm_up, r);
  }
  return schedule;
}

}  // namespace stagecraft
