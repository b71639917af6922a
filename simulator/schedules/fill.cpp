// A list scheduler. All devices are considered together: whoever can start something first does so,
// so that whatever has started earlier anywhere is known when a decision falls.
//
// A device does the first instruction of its preferred order, or one of the next few if that can
// start earlier. W fills the rest: it is done when nothing else is known to become ready within its
// time (minus some patience), or when memory keeps a forward from starting.
//
// Memory must not run full of activations that wait for each other. On a V the device's first stage
// takes room only if one activation of room is left for the second, or the second already holds
// one. Then the deepest stage can always go on, hence the one before, and so on: with an unlimited
// lookahead every order ends.

#include "simulator/schedules/fill.hpp"

#include <algorithm>
#include <limits>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

constexpr Duration never = Duration::max();

/// F, I or W of one stage: a queue by microbatch.
struct Queue {
  std::vector<int> position;    ///< in the preferred order (F and I)
  std::vector<Duration> ready;  ///< when the input is there, as far as known
  int next = 0;

  Duration next_ready() const { return index(next) < ready.size() ? ready[index(next)] : never; }
};

struct StageState {
  Queue forward;
  Queue input;
  int weights = 0;  ///< W done
};

struct Choice {
  Duration start = never;
  Instruction instruction;
};

class Filler {
 public:
  Filler(Schedule empty, const PreferredOrder& preferred, const FillPolicy& policy,
         const FillCosts& costs)
      : schedule_(std::move(empty)),
        policy_(policy),
        costs_(costs),
        stages_(index(schedule_.stages)),
        stages_of_(schedule_.devices.size()),
        free_(schedule_.devices.size(), Duration{0}),
        used_(schedule_.devices.size(), 0),
        choices_(schedule_.devices.size()) {
    for (int s = 0; s < schedule_.stages; ++s) stages_of_[index(device_of(s))].push_back(s);
    for (StageState& stage : stages_) {
      for (Queue* queue : {&stage.forward, &stage.input}) {
        queue->position.resize(index(schedule_.microbatches));
        queue->ready.assign(index(schedule_.microbatches), never);
      }
    }
    std::fill(stages_[0].forward.ready.begin(), stages_[0].forward.ready.end(), Duration{0});
    note_positions(preferred);
  }

  std::optional<Schedule> run() {
    for (std::size_t device = 0; device < choices_.size(); ++device) choose(device);
    for (int left = 3 * schedule_.stages * schedule_.microbatches; left > 0; --left) {
      const auto first =
          std::min_element(choices_.begin(), choices_.end(),
                           [](const Choice& a, const Choice& b) { return a.start < b.start; });
      if (first->start == never) return {};
      carry_out(*first);
    }
    return std::move(schedule_);
  }

 private:
  int device_of(int stage) const { return schedule_.device_of_stage[index(stage)]; }

  void note_positions(const PreferredOrder& preferred) {
    for (const auto& order : preferred) {
      for (std::size_t i = 0; i < order.size(); ++i) {
        StageState& stage = stages_[index(order[i].stage)];
        Queue& queue = order[i].op == Op::forward ? stage.forward : stage.input;
        queue.position[index(order[i].microbatch)] = static_cast<int>(i);
      }
    }
  }

  /// Where the first instruction that is not done stands in the preferred order.
  int head(std::size_t device) const {
    int head = std::numeric_limits<int>::max();
    for (const int s : stages_of_[device]) {
      for (const Queue* queue : {&stages_[index(s)].forward, &stages_[index(s)].input}) {
        if (queue->next == schedule_.microbatches) continue;
        head = std::min(head, queue->position[index(queue->next)]);
      }
    }
    return head;
  }

  bool has_room(std::size_t device, int stage) const {
    Bytes needed = costs_.saved;
    const int last = stages_of_[device].back();
    const StageState& deepest = stages_[index(last)];
    if (stage != last && deepest.forward.next == deepest.weights) needed += costs_.saved;
    return used_[device] + needed <= costs_.room;
  }

  /// What the device does next, as far as is known.
  void choose(std::size_t device) {
    Choice best;
    int best_position = 0;
    bool blocked = false;
    const int first = head(device);
    const auto consider = [&](Op op, int stage, const Queue& queue) {
      if (queue.next_ready() == never) return;
      const int position = queue.position[index(queue.next)];
      if (position - first >= policy_.lookahead) return;
      if (op == Op::forward && !has_room(device, stage)) {
        blocked = true;
        return;
      }
      const Duration start = std::max(free_[device], queue.next_ready());
      if (start > best.start || (start == best.start && position > best_position)) return;
      best = {start, {op, stage, queue.next}};
      best_position = position;
    };
    for (const int s : stages_of_[device]) {
      consider(Op::forward, s, stages_[index(s)].forward);
      consider(Op::backward_input, s, stages_[index(s)].input);
    }
    choices_[device] = with_weight(device, best, blocked);
  }

  /// W instead, if it fits before the choice or has to make room.
  Choice with_weight(std::size_t device, const Choice& choice, bool blocked) const {
    const Duration now = free_[device];
    if (choice.start <= now) return choice;
    const bool fits =
        choice.start == never || choice.start >= now + costs_.backward_weight - policy_.patience;
    if (!fits && !blocked) return choice;
    std::vector<int> stages = stages_of_[device];
    if (policy_.later_stage_first) std::reverse(stages.begin(), stages.end());
    for (const int s : stages) {
      const StageState& stage = stages_[index(s)];
      if (stage.weights < stage.input.next) {
        return {now, {Op::backward_weight, s, stage.weights}};
      }
    }
    return choice;
  }

  void carry_out(const Choice& choice) {
    const Instruction now = choice.instruction;
    const auto device = index(device_of(now.stage));
    schedule_.devices[device].push_back(now);
    StageState& stage = stages_[index(now.stage)];
    if (now.op == Op::forward) {
      ++stage.forward.next;
      used_[device] += costs_.saved;
      free_[device] = choice.start + costs_.forward;
      const bool turns = now.stage + 1 == schedule_.stages;
      arrive(now, turns ? now.stage : now.stage + 1,
             turns ? &StageState::input : &StageState::forward);
    } else if (now.op == Op::backward_input) {
      ++stage.input.next;
      used_[device] -= costs_.saved - costs_.saved_for_weight;
      free_[device] = choice.start + costs_.backward_input;
      if (now.stage > 0) arrive(now, now.stage - 1, &StageState::input);
    } else {
      ++stage.weights;
      used_[device] -= costs_.saved_for_weight;
      free_[device] = choice.start + costs_.backward_weight;
    }
    choose(device);
  }

  void arrive(const Instruction& from, int stage, Queue StageState::*queue) {
    const bool stays = device_of(stage) == device_of(from.stage);
    const Duration end = free_[index(device_of(from.stage))];
    (stages_[index(stage)].*queue).ready[index(from.microbatch)] =
        stays ? end : end + costs_.transfer;
    if (!stays) choose(index(device_of(stage)));
  }

  Schedule schedule_;
  FillPolicy policy_;
  FillCosts costs_;
  std::vector<StageState> stages_;
  std::vector<std::vector<int>> stages_of_;  ///< of each device
  std::vector<Duration> free_;               ///< end of the device's last instruction
  std::vector<Bytes> used_;
  std::vector<Choice> choices_;
};

}  // namespace

std::optional<Schedule> fill(Schedule empty, const PreferredOrder& preferred,
                             const FillPolicy& policy, const FillCosts& costs) {
  return Filler(std::move(empty), preferred, policy, costs).run();
}

PreferredOrder without_weights(const Schedule& schedule) {
  PreferredOrder preferred = schedule.devices;
  for (auto& order : preferred) {
    std::erase_if(order, [](const Instruction& i) { return i.op == Op::backward_weight; });
  }
  return preferred;
}

}  // namespace stagecraft
