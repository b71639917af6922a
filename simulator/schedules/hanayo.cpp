// Hanayo (after Liu et al., SC 2023): a pipeline folded into W waves. Each wave runs down all
// devices and up again, so a device holds 2W stages, and neighbouring stages at every turn share a
// device and need no message.
//
//   device 0   F0 F1 .  f0 b0 b0 f1 b1 b1 B0 B0 B1 B1      p = 2, W = 1, m = 2: capitals for stages
//   device 1   .  F0 f0 F1 f1 .  b0 b0 .  …                0 and 1 (down), small letters for 3 and
//   2
//
// The order is our own, not the paper's: a list schedule in which all devices are considered
// together and whoever can start first does so; a backward goes before a forward, a deeper stage
// before an earlier one, and at most p microbatches are under way. It reckons with forwards and
// backwards that take equally long.
//
//   step time      m(f + b) + (p - 1)f / W      for f = b, m = p

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

namespace {

/// How many microbatches have arrived at a stage and left it, and when the last ones did.
struct WaveQueue {
  std::vector<int> ready;  ///< when each microbatch's input is there, as far as known
  int next = 0;

  bool waits() const { return index(next) < ready.size(); }
  int next_ready() const { return ready[index(next)]; }
};

struct WaveChoice {
  int start = 0;
  Instruction instruction;
};

/// Every instruction takes one unit of time, messages none.
class WaveList {
 public:
  explicit WaveList(Schedule empty)
      : schedule_(std::move(empty)),
        forward_(index(schedule_.stages)),
        backward_(index(schedule_.stages)),
        free_(schedule_.devices.size(), 0) {
    forward_[0].ready.assign(index(schedule_.microbatches), 0);
  }

  Schedule run() {
    while (const auto choice = earliest()) carry_out(*choice);
    return std::move(schedule_);
  }

 private:
  int device_of(int stage) const { return schedule_.device_of_stage[index(stage)]; }

  bool may_enter() const {
    return forward_[0].next - backward_[0].next < static_cast<int>(schedule_.devices.size());
  }

  /// The earliest start, backwards before forwards, deepest stage first.
  std::optional<WaveChoice> earliest() const {
    std::optional<WaveChoice> best;
    const auto consider = [&](Op op, int stage, const WaveQueue& queue) {
      if (!queue.waits()) return;
      const int start = std::max(free_[index(device_of(stage))], queue.next_ready());
      if (!best || start < best->start) best = {start, {op, stage, queue.next}};
    };
    for (int s = schedule_.stages - 1; s >= 0; --s) {
      consider(Op::backward, s, backward_[index(s)]);
    }
    for (int s = schedule_.stages - 1; s >= 0; --s) {
      if (s > 0 || may_enter()) consider(Op::forward, s, forward_[index(s)]);
    }
    return best;
  }

  void carry_out(const WaveChoice& choice) {
    const Instruction& now = choice.instruction;
    const auto device = index(device_of(now.stage));
    schedule_.devices[device].push_back(now);
    const int end = free_[device] = choice.start + 1;
    if (now.op == Op::forward) {
      ++forward_[index(now.stage)].next;
      const bool turns = now.stage + 1 == schedule_.stages;
      (turns ? backward_[index(now.stage)] : forward_[index(now.stage) + 1]).ready.push_back(end);
    } else {
      ++backward_[index(now.stage)].next;
      if (now.stage > 0) backward_[index(now.stage) - 1].ready.push_back(end);
    }
  }

  Schedule schedule_;
  std::vector<WaveQueue> forward_;
  std::vector<WaveQueue> backward_;
  std::vector<int> free_;
};

void require_waves(const ScheduleShape& shape) {
  if (shape.virtual_stages % 2 == 0) return;
  fail_usage("hanayo: each wave takes two stages per device, so virtual stages must be even, not ",
             shape.virtual_stages, "; nearest legal value: ", shape.virtual_stages + 1);
}

}  // namespace

Schedule hanayo(const ScheduleShape& shape) {
  require_counts("hanayo", shape);
  require_waves(shape);
  refuse_group("hanayo", shape);
  refuse_warm_up("hanayo", shape);
  refuse_in_flight("hanayo", shape);
  return WaveList(empty_schedule("hanayo", shape, StagePlacement::wave)).run();
}

}  // namespace stagecraft
