// The search of the automatic schedules: a few dozen policies, each carried out and put on a clock.
//
// Besides the given costs, every policy is also tried as if F, I and W took equally long and
// messages no time: the regular order that this gives is often the better one.

#include <algorithm>
#include <limits>

#include "profiles/index.hpp"
#include "simulator/schedules/fill.hpp"

namespace stagecraft {

namespace {

/// Ends of F and I by stage and microbatch; the order is carried out without any choice.
class OrderClock {
 public:
  OrderClock(const Schedule& schedule, const FillCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        forward_(index(schedule.stages) * index(schedule.microbatches), unknown),
        input_(forward_),
        free_(schedule.devices.size(), Duration{0}),
        first_(schedule.devices.size(), unknown),
        next_(schedule.devices.size(), 0) {}

  /// Step time plus longest span.
  Duration score() {
    for (bool going = true; going;) {
      going = false;
      for (std::size_t device = 0; device < next_.size(); ++device) going |= advance(device);
    }
    Duration step{0};
    Duration span{0};
    for (std::size_t device = 0; device < next_.size(); ++device) {
      step = std::max(step, free_[device]);
      span = std::max(span, free_[device] - first_[device]);
    }
    return step + span;
  }

 private:
  static constexpr Duration unknown = Duration::max();

  Duration& end(std::vector<Duration>& ends, int stage, int microbatch) {
    return ends[index(stage) * index(schedule_.microbatches) + index(microbatch)];
  }

  Duration arrival(std::vector<Duration>& ends, int from, const Instruction& to) {
    const Duration end_there = end(ends, from, to.microbatch);
    const auto& device = schedule_.device_of_stage;
    const bool stays = device[index(from)] == device[index(to.stage)];
    return end_there == unknown || stays ? end_there : end_there + costs_.transfer;
  }

  Duration ready(const Instruction& i) {
    if (i.op == Op::forward && i.stage > 0) return arrival(forward_, i.stage - 1, i);
    if (i.op == Op::backward_input && i.stage + 1 < schedule_.stages) {
      return arrival(input_, i.stage + 1, i);
    }
    return Duration{0};
  }

  Duration time(Op op) const {
    if (op == Op::forward) return costs_.forward;
    return op == Op::backward_input ? costs_.backward_input : costs_.backward_weight;
  }

  /// Carries out what the device can; whether that was anything.
  bool advance(std::size_t device) {
    const std::vector<Instruction>& order = schedule_.devices[device];
    const std::size_t before = next_[device];
    for (; next_[device] < order.size(); ++next_[device]) {
      const Instruction& now = order[next_[device]];
      const Duration arrived = ready(now);
      if (arrived == unknown) break;
      const Duration start = std::max(free_[device], arrived);
      if (first_[device] == unknown) first_[device] = start;
      free_[device] = start + time(now.op);
      if (now.op == Op::forward) end(forward_, now.stage, now.microbatch) = free_[device];
      if (now.op == Op::backward_input) end(input_, now.stage, now.microbatch) = free_[device];
    }
    return next_[device] > before;
  }

  const Schedule& schedule_;
  const FillCosts& costs_;
  std::vector<Duration> forward_;
  std::vector<Duration> input_;
  std::vector<Duration> free_;
  std::vector<Duration> first_;
  std::vector<std::size_t> next_;
};

/// Times are multiplied by the number of stages of a device instead of dividing the hints.
FillCosts costs_for(const ScheduleShape& shape, int room) {
  const ScheduleHints& hints = shape.hints;
  return {.forward = hints.forward,
          .backward_input = hints.backward_input,
          .backward_weight = hints.backward_weight,
          .transfer = hints.transfer * shape.virtual_stages,
          .saved = hints.saved,
          .saved_for_weight = hints.saved_for_weight,
          .room = room * hints.saved};
}

FillCosts regular(FillCosts costs) {
  costs.forward = costs.backward_input = costs.backward_weight = Duration{4};
  costs.transfer = Duration{0};
  return costs;
}

/// What the fillings reckon with.
std::vector<FillCosts> assumptions(const FillCosts& costs) {
  const bool is_regular = costs.forward == costs.backward_input &&
                          costs.forward == costs.backward_weight && costs.transfer == Duration{0};
  if (is_regular) return {regular(costs)};
  return {costs, regular(costs)};
}

/// An unlimited lookahead is among them, so that something is found in any room.
std::vector<FillPolicy> policies(Duration weight, bool several_stages) {
  constexpr int unlimited = std::numeric_limits<int>::max();
  std::vector<FillPolicy> list;
  for (const int lookahead : {1, 2, 4, 8, unlimited}) {
    const bool pays = several_stages || lookahead <= 2 || lookahead == unlimited;
    if (!pays) continue;
    for (int quarter = 0; quarter <= 4; ++quarter) {
      list.push_back({lookahead, weight * quarter / 4, true});
      if (several_stages) list.push_back({lookahead, weight * quarter / 4, false});
    }
  }
  return list;
}

bool fits(const Schedule& schedule, const FillCosts& costs) {
  for (const auto& order : schedule.devices) {
    Bytes used = 0;
    for (const Instruction& instruction : order) {
      if (instruction.op == Op::forward) used += costs.saved;
      if (instruction.op == Op::backward_input) used -= costs.saved - costs.saved_for_weight;
      if (instruction.op == Op::backward_weight) used -= costs.saved_for_weight;
      if (used > costs.room) return false;
    }
  }
  return true;
}

/// Keeps the best of all schedules it is offered.
class Best {
 public:
  explicit Best(const FillCosts& costs) : costs_(costs) {}

  void offer(Schedule schedule) {
    const Duration score = OrderClock(schedule, costs_).score();
    if (best_ && score >= least_) return;
    best_ = std::move(schedule);
    least_ = score;
  }

  Schedule take() { return std::move(*best_); }

 private:
  FillCosts costs_;
  std::optional<Schedule> best_;
  Duration least_{0};
};

}  // namespace

Schedule best_filling(const Schedule& empty, const std::vector<Schedule>& known,
                      const std::vector<PreferredOrder>& preferred, const ScheduleShape& shape,
                      int room) {
  const FillCosts costs = costs_for(shape, room);
  Best best(costs);
  for (const Schedule& schedule : known) {
    if (fits(schedule, costs)) best.offer(schedule);
  }
  const bool several_stages = empty.stages > shape.devices;
  for (const PreferredOrder& order : preferred) {
    for (const FillCosts& assumed : assumptions(costs)) {
      for (const FillPolicy& policy : policies(assumed.backward_weight, several_stages)) {
        if (auto found = fill(empty, order, policy, assumed)) best.offer(std::move(*found));
      }
    }
  }
  Schedule result = best.take();
  result.name = empty.name;
  return result;
}

}  // namespace stagecraft
