#include "planner/timing/timed_order.hpp"

#include <algorithm>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Which passes of a schedule have been placed so far.
class Progress {
 public:
  explicit Progress(const Schedule& schedule)
      : schedule_(schedule),
        forward_(index(schedule.stages) * index(schedule.microbatches)),
        backward_(forward_.size()) {}

  bool is_ready(const Instruction& instruction) const {
    const auto [op, stage, microbatch] = instruction;
    if (op == Op::forward) return stage == 0 || forward_[place(stage - 1, microbatch)] != 0;
    if (op != Op::backward && op != Op::backward_input) return true;
    return stage + 1 == schedule_.stages || backward_[place(stage + 1, microbatch)] != 0;
  }

  void finish(const Instruction& instruction) {
    const auto [op, stage, microbatch] = instruction;
    if (op == Op::forward) forward_[place(stage, microbatch)] = 1;
    if (op == Op::backward || op == Op::backward_input) backward_[place(stage, microbatch)] = 1;
  }

 private:
  std::size_t place(int stage, int microbatch) const {
    return index(stage) * index(schedule_.microbatches) + index(microbatch);
  }

  const Schedule& schedule_;
  std::vector<char> forward_;
  std::vector<char> backward_;
};

/// The order is made in rounds of what each device can run next, so that consecutive instructions
/// mostly do not depend on each other, which is fast on processors. The result is incomplete if the
/// devices deadlock.
std::vector<Instruction> timed_order(const Schedule& schedule) {
  Progress progress(schedule);
  std::vector<std::size_t> next(schedule.devices.size());
  std::vector<Instruction> order;
  for (std::size_t before = 0;; before = order.size()) {
    for (std::size_t device = 0; device < next.size(); ++device) {
      const auto& list = schedule.devices[device];
      if (next[device] == list.size() || !progress.is_ready(list[next[device]])) continue;
      order.push_back(list[next[device]++]);
    }
    if (order.size() == before) return order;
    for (std::size_t i = before; i < order.size(); ++i) progress.finish(order[i]);
  }
}

bool covers(const FullMoment& a, const FullMoment& b) {
  if (a.turn != b.turn || a.splits < b.splits) return false;
  for (std::size_t i = 0; i < a.in_flight.size(); ++i) {
    if (a.in_flight[i] < b.in_flight[i] || a.waiting[i] < b.waiting[i]) return false;
  }
  return true;
}

void keep(std::vector<FullMoment>& moments, const FullMoment& moment) {
  for (const FullMoment& other : moments) {
    if (covers(other, moment)) return;
  }
  std::erase_if(moments, [&](const FullMoment& other) { return covers(moment, other); });
  moments.push_back(moment);
}

/// A peak for every B or I of the device's first replica, with the microbatches in flight when it
/// begins.
std::vector<FullMoment> full_moments(const std::vector<Instruction>& order, int devices, int turns,
                                     int stride) {
  std::vector<FullMoment> moments;
  FullMoment now{.in_flight = std::vector<int>(index(turns)),
                 .waiting = std::vector<int>(index(turns))};
  for (const Instruction& instruction : order) {
    if (instruction.microbatch % stride != 0) continue;
    now.turn = instruction.stage / devices;
    int& count = now.in_flight[index(now.turn)];
    if (instruction.op == Op::forward) ++count;
    if (instruction.op == Op::backward_weight) --now.waiting[index(now.turn)];
    if (instruction.op != Op::backward && instruction.op != Op::backward_input) continue;
    now.splits = instruction.op == Op::backward_input;
    keep(moments, now);
    --count;
    if (now.splits) ++now.waiting[index(now.turn)];
  }
  return moments;
}

}  // namespace

std::optional<TimedOrder> time_order(const Schedule& schedule, const std::vector<int>& strides) {
  TimedOrder timed;
  timed.order = timed_order(schedule);
  std::size_t instructions = 0;
  const int devices = static_cast<int>(strides.size());
  for (std::size_t d = 0; d < schedule.devices.size(); ++d) {
    instructions += schedule.devices[d].size();
    timed.moments.push_back(
        full_moments(schedule.devices[d], devices, schedule.stages / devices, strides[d]));
  }
  if (timed.order.size() != instructions) return {};
  timed.places_recompute =
      std::any_of(timed.order.begin(), timed.order.end(),
                  [](const Instruction& instruction) { return instruction.op == Op::recompute; });
  return timed;
}

Bytes held_at(const FullMoment& moment, std::size_t place, const ChunkMemory& stage,
              Recompute recompute) {
  const bool again = recompute == Recompute::full;
  Bytes bytes = 0;
  if (stage.keeps_input) {
    bytes += moment.in_flight[place] * (stage.input + (again ? 0 : stage.saved)) +
             moment.waiting[place] * (stage.input + stage.saved_for_weight);
  }
  if (place != index(moment.turn)) return bytes;
  // Incoming and outgoing gradients live during the backward, too.
  return bytes + (again ? stage.saved : 0) + (moment.splits ? stage.saved_for_weight : 0) +
         stage.workspace + stage.output + stage.input;
}

Bytes bytes_at(const FullMoment& moment, std::span<const ChunkMemory> stages,
               std::span<const Recompute> recompute, bool computes) {
  Bytes bytes = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    bytes += stages[i].parameters + stages[i].gradients + stages[i].optimizer;
    if (computes) bytes += held_at(moment, i, stages[i], recompute[i]);
  }
  return bytes;
}

}  // namespace stagecraft
