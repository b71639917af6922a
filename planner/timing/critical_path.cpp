#include "planner/timing/critical_path.hpp"

#include <algorithm>
#include <numeric>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

bool recomputes(const TimedOrder& order, const Layout& layout, int stage) {
  return !order.places_recompute && layout.recompute[index(stage)] == Recompute::full;
}

}  // namespace

double time_of(const Passes& passes, const StageCosts& stage, double again) {
  return (passes.forward + passes.recompute) * stage.forward +
         passes.backward * (stage.backward + again) +
         passes.backward_input * (stage.backward_input + again) +
         passes.backward_weight * stage.backward_weight + passes.sum * stage.sum +
         passes.update * stage.update + passes.collect * stage.collect;
}

double time_of(const Passes& passes, const CutCosts& cut) {
  return passes.there_latency * cut.there_latency + passes.there_occupancy * cut.there_occupancy +
         passes.back_latency * cut.back_latency + passes.back_occupancy * cut.back_occupancy;
}

void add(Passes& to, const Passes& from, double weight) {
  to.forward += weight * from.forward;
  to.backward += weight * from.backward;
  to.backward_input += weight * from.backward_input;
  to.backward_weight += weight * from.backward_weight;
  to.recompute += weight * from.recompute;
  to.sum += weight * from.sum;
  to.update += weight * from.update;
  to.collect += weight * from.collect;
  to.there_latency += weight * from.there_latency;
  to.there_occupancy += weight * from.there_occupancy;
  to.back_latency += weight * from.back_latency;
  to.back_occupancy += weight * from.back_occupancy;
}

namespace {

void count(Passes& passes, Op op) {
  switch (op) {
    case Op::forward: ++passes.forward; break;
    case Op::backward: ++passes.backward; break;
    case Op::backward_input: ++passes.backward_input; break;
    case Op::recompute: ++passes.recompute; break;
    default: ++passes.backward_weight; break;
  }
}

}  // namespace

std::vector<PassCounts> device_paths(const PipelineCosts& costs, const TimedOrder& order) {
  std::vector<PassCounts> paths(index(costs.depth()));
  std::vector<char> began(paths.size());
  std::vector<Instruction> last(paths.size());
  for (PassCounts& path : paths) path.stages.resize(index(costs.stages()));
  for (const Instruction& instruction : order.order) {
    const int device = costs.device_of(instruction.stage);
    PassCounts& path = paths[index(device)];
    count(path.stages[index(instruction.stage)], instruction.op);
    last[index(device)] = instruction;
    if (began[index(device)] != 0) continue;
    began[index(device)] = 1;
    for (int s = 0; s < instruction.stage; ++s) {
      Passes& before = path.stages[index(s)];
      before.forward += 1;
      before.there_latency += 1;
      before.there_occupancy += 1;
    }
  }
  for (std::size_t d = 0; d < paths.size(); ++d) {
    const auto [op, stage, microbatch] = last[d];
    int end = stage;
    if (op == Op::backward || op == Op::backward_input) {
      for (; end > 0; --end) {
        Passes& next = paths[d].stages[index(end - 1)];
        (op == Op::backward ? next.backward : next.backward_input) += 1;
        next.back_latency += 1;
        next.back_occupancy += 1;
      }
    }
    paths[d].stages[index(end)].sum += 1;
    paths[d].stages[index(end)].update += 1;
  }
  return paths;
}

CriticalPasses::CriticalPasses(const PipelineCosts& costs, const TimedOrder& order,
                               int microbatches)
    : costs_(costs), order_(order), microbatches_(microbatches) {
  list_steps();
}

namespace {

/// Places of a stage's times in `times_`.
struct PassTime {
  enum Kind { forward, recompute, backward, backward_input, backward_weight, kinds };

  static Kind of(Op op) {
    switch (op) {
      case Op::forward: return forward;
      case Op::recompute: return recompute;
      case Op::backward: return backward;
      case Op::backward_input: return backward_input;
      default: return backward_weight;
    }
  }
};

}  // namespace

void CriticalPasses::list_steps() {
  const int stages = costs_.stages();
  const auto arrival = [&](bool goes_back, int stage, int microbatch) {
    return ((goes_back ? stages : 0) + stage) * microbatches_ + microbatch;
  };
  for (const auto& [op, stage, microbatch] : order_.order) {
    const PassTime::Kind kind = PassTime::of(op);
    Step& step = steps_.emplace_back();
    step.stage = stage;
    step.device = costs_.device_of(stage);
    step.time = stage * PassTime::kinds + kind;
    const bool goes_back = kind == PassTime::backward || kind == PassTime::backward_input;
    step.ends = goes_back || kind == PassTime::backward_weight;
    if (kind != PassTime::forward && !goes_back) continue;
    const int from = goes_back ? stage + 1 : stage - 1, to = goes_back ? stage - 1 : stage + 1;
    if (from >= 0 && from < stages) step.arrival = arrival(goes_back, stage, microbatch);
    if (to < 0 || to >= stages) continue;
    step.destination = arrival(goes_back, to, microbatch);
    step.channel = goes_back ? stages + to : stage;
  }
  arrivals_.resize(2 * index(stages) * index(microbatches_));
  causes_.resize(steps_.size());
}

void CriticalPasses::place(const Layout& layout) {
  stages_.clear();
  channels_.assign(2 * index(costs_.stages()), {});
  for (int s = 0; s < costs_.stages(); ++s) {
    const int first = layout.cuts[index(s)], end = layout.cuts[index(s) + 1];
    const StageCosts& own = costs_.stage(s, first, end);
    stages_.push_back(StageTimes::of(own, recomputes(order_, layout, s) ? own.forward : 0));
    place_message(s, costs_.cut(s, end));
  }
}

void CriticalPasses::place_message(int stage, const CutCosts& cut) {
  Channel &there = channels_[index(stage)], &back = channels_[index(costs_.stages() + stage)];
  there.occupancy = cut.there_occupancy;
  there.latency = cut.there_latency;
  back.occupancy = cut.back_occupancy;
  back.latency = cut.back_latency;
}

void CriticalPasses::begin() {
  times_.clear();
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const StageTimes& own = stages_[s];
    for (const double time :
         {own.forward, own.forward, own.backward, own.backward_input, own.backward_weight})
      times_.push_back(slower_[s] * time);
  }
  device_.assign(index(costs_.depth()), {});
  last_backward_.assign(stages_.size(), {});
}

/// A message leaves when it is ready and those before it have left.
void CriticalPasses::hand_on(int instruction, const Step& step, double when) {
  Channel& channel = channels_[index(step.channel)];
  if (channel.origin < 0 || when >= channel.free) {
    channel.free = when;
    channel.origin = instruction;
    channel.messages = 0;
  }
  channel.free += channel.occupancy;
  ++channel.messages;
  arrivals_[index(step.destination)] = {channel.free + channel.latency,
                                        {channel.origin, channel.messages}};
}

void CriticalPasses::run() {
  begin();
  for (int i = 0; i < static_cast<int>(steps_.size()); ++i) {
    const Step& step = steps_[index(i)];
    Last& device = device_[index(step.device)];
    Cause& cause = causes_[index(i)];
    cause = {.before = device.instruction, .messages = 0};
    if (step.arrival >= 0) {
      const Arrival& arrival = arrivals_[index(step.arrival)];
      if (arrival.time > device.time) {
        device.time = arrival.time;
        cause = arrival.cause;
      }
    }
    device.time += times_[index(step.time)];
    device.instruction = i;
    if (step.destination >= 0) hand_on(i, step, device.time);
    if (step.ends) last_backward_[index(step.stage)] = device;
  }
}

namespace {

/// Layout of `CriticalPasses::tails`: first the tail of tied weights, then three tails for each
/// stage.
constexpr std::size_t tie_tail = 0;
std::size_t sum_of(int stage) {
  return 1 + 3 * index(stage);
}
std::size_t update_of(int stage) {
  return sum_of(stage) + 1;
}
std::size_t collect_of(int stage) {
  return sum_of(stage) + 2;
}

}  // namespace

/// Stages in the order of their last backwards.
std::vector<int> CriticalPasses::by_completion() const {
  std::vector<int> stages(index(costs_.stages()));
  std::iota(stages.begin(), stages.end(), 0);
  std::stable_sort(stages.begin(), stages.end(), [&](int a, int b) {
    return last_backward_[index(a)].instruction < last_backward_[index(b)].instruction;
  });
  return stages;
}

/// A stage's gradient is summed after its last backward and after the sums before it; tied weights
/// are summed after both of their stages.
void CriticalPasses::sum_in_turn(const std::vector<int>& stages, std::vector<Tail>& tails) const {
  std::vector<int> before(index(costs_.depth()), -1);
  for (const int s : stages) {
    Tail& sum = tails[sum_of(s)];
    const Last& last = last_backward_[index(s)];
    sum = {.end = last.time, .before = -1, .instruction = last.instruction};
    int& lane = before[index(costs_.device_of(s))];
    if (costs_.sums_take_turns() && lane >= 0 && tails[index(lane)].end > sum.end) {
      sum = {.end = tails[index(lane)].end, .before = lane};
    }
    sum.end += stages_[index(s)].sum;
    lane = static_cast<int>(sum_of(s));
  }
  const int end = costs_.stages() - 1;
  auto latest = static_cast<int>(sum_of(0));
  const auto wait_for = [&](int other) {
    if (tails[index(other)].end > tails[index(latest)].end) latest = other;
  };
  wait_for(static_cast<int>(sum_of(end)));
  if (costs_.ties_last()) {
    wait_for(before[index(costs_.device_of(0))]);
    wait_for(before[index(costs_.device_of(end))]);
  }
  tails[tie_tail] = {.end = tails[index(latest)].end + costs_.tie(), .before = latest};
}

/// Updates stand at the end of what a device computes; collections follow them, one after the
/// other.
void CriticalPasses::update_in_turn(const std::vector<int>& stages,
                                    std::vector<Tail>& tails) const {
  std::vector<int> updates(index(costs_.depth()), -1), latest = updates;
  for (const int s : stages) latest[index(costs_.device_of(s))] = static_cast<int>(sum_of(s));
  for (const int s : stages) {
    const int device = costs_.device_of(s);
    const Last& computed = device_[index(device)];
    Tail update{.end = computed.time, .before = -1, .instruction = computed.instruction};
    const auto wait_for = [&](Tail& tail, int other) {
      if (other < 0 || tails[index(other)].end <= tail.end) return;
      tail = {.end = tails[index(other)].end, .before = other};
    };
    const bool tied =
        (costs_.tie() > 0 || costs_.joins_ends()) && (s == 0 || s + 1 == costs_.stages());
    if (costs_.sums_take_turns()) wait_for(update, updates[index(device)]);
    wait_for(update, static_cast<int>(tied ? tie_tail : sum_of(s)));
    update.end += stages_[index(s)].update;
    updates[index(device)] = static_cast<int>(update_of(s));
    tails[update_of(s)] = update;
    Tail collect{.end = update.end, .before = static_cast<int>(update_of(s))};
    if (costs_.sums_take_turns() && stages_[index(s)].collect > 0) {
      wait_for(collect, latest[index(device)]);
      latest[index(device)] = static_cast<int>(collect_of(s));
    }
    collect.end += stages_[index(s)].collect;
    tails[collect_of(s)] = collect;
  }
}

std::vector<CriticalPasses::Tail> CriticalPasses::tails() const {
  std::vector<Tail> tails(sum_of(costs_.stages()));
  const std::vector<int> stages = by_completion();
  sum_in_turn(stages, tails);
  update_in_turn(stages, tails);
  return tails;
}

/// Times the work after the last backwards, and follows the critical path back from its end.
PassCounts CriticalPasses::finish(double& step) const {
  const std::vector<Tail> tails = this->tails();
  const auto last = std::max_element(tails.begin(), tails.end(),
                                     [](const Tail& a, const Tail& b) { return a.end < b.end; });
  step = last->end;
  PassCounts path;
  path.stages.resize(index(costs_.stages()));
  for (auto tail = static_cast<int>(last - tails.begin()); tail >= 0;) {
    const Tail& here = tails[index(tail)];
    if (index(tail) == tie_tail) {
      path.ties += 1;
    } else {
      const int stage = (tail - 1) / 3;
      Passes& passes = path.stages[index(stage)];
      if (index(tail) == sum_of(stage)) passes.sum += 1;
      if (index(tail) == update_of(stage)) passes.update += 1;
      if (index(tail) == collect_of(stage)) passes.collect += 1;
    }
    if (here.before < 0) follow(here.instruction, path);
    tail = here.before;
  }
  return path;
}

void CriticalPasses::follow(int instruction, PassCounts& path) const {
  while (instruction >= 0) {
    const auto [op, stage, microbatch] = order_.order[index(instruction)];
    Passes& passes = path.stages[index(stage)];
    count(passes, op);
    const Cause& cause = causes_[index(instruction)];
    if (cause.messages > 0) {
      const bool goes_forward = op == Op::forward;
      Passes& cut = path.stages[index(goes_forward ? stage - 1 : stage)];
      (goes_forward ? cut.there_latency : cut.back_latency) += 1;
      (goes_forward ? cut.there_occupancy : cut.back_occupancy) += cause.messages;
    }
    instruction = cause.before;
  }
}

PassCounts CriticalPasses::through(int device, const Layout& layout) {
  constexpr double much = 1.02;
  slower_.clear();
  for (int s = 0; s < costs_.stages(); ++s) {
    slower_.push_back(costs_.device_of(s) == device ? much : 1);
  }
  place(layout);
  run();
  double step = 0;
  return finish(step);
}

PassCounts CriticalPasses::of(const Layout& layout, double& step) {
  slower_.assign(index(costs_.stages()), 1);
  place(layout);
  run();
  return finish(step);
}

PassCounts CriticalPasses::of(const std::vector<StageTimes>& stages, double& step) {
  std::vector<CutCosts> cuts;
  for (int s = 0; s + 1 < costs_.stages(); ++s) cuts.push_back(costs_.cut(s, 1));
  return of(stages, cuts, step);
}

PassCounts CriticalPasses::of(const std::vector<StageTimes>& stages,
                              const std::vector<CutCosts>& cuts, double& step) {
  slower_.assign(stages.size(), 1);
  stages_ = stages;
  channels_.assign(2 * stages.size(), {});
  for (int s = 0; s + 1 < costs_.stages(); ++s) place_message(s, cuts[index(s)]);
  run();
  return finish(step);
}

}  // namespace stagecraft
