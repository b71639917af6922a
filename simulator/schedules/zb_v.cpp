// ZB-V (Qi et al., 2024, "Pipeline parallelism with controllable memory"): no bubble with 1F1B's
// memory, by folding the pipeline into a V. Device r holds stage r of the way down and stage
// 2p - 1 - r of the way up.
//
//   device 0   F0 F1 F2 f0 i0 w0 f1 i1 w1 F3 I0 …        p = 2: capitals for stages 0 and 1 (down),
//   device 1   .  F0 f0 F1 f1 i0 w0 F2 I0 W0 f2 …        small letters for 3 and 2 (up)
//
// Every device holds at most 2p stage activations (half a device's layers each), and since the loss
// is computed where the first layer is, all devices start to drain at about the same time. With
// equal f, i and w every device works without a break; the step takes (p - 1)f / 2 longer, because
// the first forward has to get there.
//
// Device r's order has fixed phases, written for n = max(m, 2p - 1) microbatches; those beyond m
// are left out. D is the way down, U the way up:
//
//   2(p - r) - 1 times     F(D)
//   r times                F(U) F(D)
//   p - r times            F(U) I(U) W(U)
//   until forwards end     F(D), if any is left   I(D) W(D)   F(U) I(U) W(U)
//   r times                I(D) I(U)
//   p - r times            I(D) W(D)
//   the rest               W(U), W(D)

#include <algorithm>
#include <array>
#include <map>

#include "profiles/error.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

namespace {

class VeeDevice {
 public:
  VeeDevice(const ScheduleShape& shape, int device)
      : devices_(shape.devices),
        device_(device),
        microbatches_(shape.microbatches),
        padded_(std::max(shape.microbatches, 2 * shape.devices - 1)) {}

  std::vector<Instruction> order() {
    start();
    keep_going();
    drain();
    return std::move(order_);
  }

 private:
  int down() const { return device_; }
  int up() const { return 2 * devices_ - 1 - device_; }
  int done(Op op, int stage) { return done_[{op, stage}]; }

  /// The next microbatch of this kind, unless it is one of those that are left out.
  void add(Op op, int stage) {
    const int microbatch = done_[{op, stage}]++;
    if (microbatch < microbatches_) order_.push_back({op, stage, microbatch});
  }

  void add_backward(int stage) {
    add(Op::backward_input, stage);
    add(Op::backward_weight, stage);
  }

  void start() {
    for (int i = 0; i < 2 * (devices_ - device_) - 1; ++i) add(Op::forward, down());
    for (int i = 0; i < device_; ++i) {
      add(Op::forward, up());
      add(Op::forward, down());
    }
    for (int i = 0; i < devices_ - device_; ++i) {
      add(Op::forward, up());
      add_backward(up());
    }
  }

  void keep_going() {
    while (done(Op::forward, up()) < padded_) {
      if (done(Op::forward, down()) < padded_) add(Op::forward, down());
      add_backward(down());
      add(Op::forward, up());
      add_backward(up());
    }
  }

  void drain() {
    for (int i = 0; i < device_; ++i) {
      add(Op::backward_input, down());
      add(Op::backward_input, up());
    }
    for (int i = 0; i < devices_ - device_; ++i) add_backward(down());
    for (const int stage : {up(), down()}) {
      while (done(Op::backward_weight, stage) < padded_) add(Op::backward_weight, stage);
    }
  }

  int devices_;
  int device_;
  int microbatches_;
  int padded_;
  std::map<std::pair<Op, int>, int> done_;
  std::vector<Instruction> order_;
};

}  // namespace

Schedule zb_v(const ScheduleShape& shape) {
  require_counts("zb-v", shape);
  require_two_virtual_stages("zb-v", shape);
  refuse_group("zb-v", shape);
  refuse_warm_up("zb-v", shape);
  refuse_in_flight("zb-v", shape);

  Schedule schedule = empty_schedule("zb-v", shape, StagePlacement::vee);
  for (int r = 0; r < shape.devices; ++r) {
    schedule.devices[static_cast<std::size_t>(r)] = VeeDevice(shape, r).order();
  }
  return schedule;
}

}  // namespace stagecraft
