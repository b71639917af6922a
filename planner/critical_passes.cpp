#include "planner/critical_passes.hpp"

#include <algorithm>
#include <numeric>

namespace stagecraft {

namespace {

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

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

double length(const PassCounts& path, const PipelineCosts& costs, const TimedOrder& order,
              const Layout& layout) {
  double time = path.ties * costs.tie();
  for (int s = 0; s < costs.stages(); ++s) {
    const Passes& passes = path.stages[index(s)];
    const int end = layout.cuts[index(s) + 1];
    const StageCosts& stage = costs.stage(s, layout.cuts[index(s)], end);
    time += time_of(passes, stage, recomputes(order, layout, s) ? stage.forward : 0);
    if (s + 1 < costs.stages()) time += time_of(passes, costs.cut(s, end));
  }
  return time;
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
    : costs_(costs), order_(order), microbatches_(microbatches) {}

std::size_t CriticalPasses::pass(int stage, int microbatch) const {
  return index(stage) * index(microbatches_) + index(microbatch);
}

void CriticalPasses::place(const Layout& layout) {
  stages_.clear();
  cuts_.clear();
  again_.clear();
  for (int s = 0; s < costs_.stages(); ++s) {
    const int first = layout.cuts[index(s)], end = layout.cuts[index(s) + 1];
    stages_.push_back(&costs_.stage(s, first, end));
    cuts_.push_back(&costs_.cut(s, end));
    again_.push_back(recomputes(order_, layout, s) ? stages_.back()->forward : 0);
  }
  const std::size_t passes = index(costs_.stages()) * index(microbatches_);
  forwards_.assign(passes, {});
  backwards_.assign(passes, {});
  there_.assign(stages_.size(), {});
  back_.assign(stages_.size(), {});
  device_.assign(index(costs_.depth()), {});
  last_backward_.assign(stages_.size(), {});
  causes_.assign(order_.order.size(), {});
}

/// A message leaves when it is ready and those before it have left.
void CriticalPasses::hand_on(int instruction, int stage, bool goes_forward, double when) {
  const int to = stage + (goes_forward ? 1 : -1);
  if (to < 0 || to == costs_.stages()) return;
  const int microbatch = order_.order[index(instruction)].microbatch;
  const CutCosts& cut = *cuts_[index(goes_forward ? stage : to)];
  Channel& channel = (goes_forward ? there_ : back_)[index(goes_forward ? stage : to)];
  if (channel.origin < 0 || when >= channel.free) {
    channel = {.free = when, .origin = instruction, .messages = 0};
  }
  channel.free += goes_forward ? cut.there_occupancy : cut.back_occupancy;
  ++channel.messages;
  (goes_forward ? forwards_ : backwards_)[pass(to, microbatch)] = {
      channel.free + (goes_forward ? cut.there_latency : cut.back_latency),
      {channel.origin, channel.messages}};
}

void CriticalPasses::run() {
  for (int i = 0; i < static_cast<int>(order_.order.size()); ++i) {
    const auto [op, stage, microbatch] = order_.order[index(i)];
    const StageCosts& costs = *stages_[index(stage)];
    Last& device = device_[index(costs_.device_of(stage))];
    const double slower = slower_[index(stage)];
    Cause& cause = causes_[index(i)];
    cause.before = device.instruction;
    const auto wait_for = [&](const Arrival& arrival) {
      if (arrival.time <= device.time) return;
      device.time = arrival.time;
      cause = arrival.cause;
    };
    const bool goes_back = op == Op::backward || op == Op::backward_input;
    if (op == Op::forward) {
      wait_for(forwards_[pass(stage, microbatch)]);
      device.time += slower * costs.forward;
      hand_on(i, stage, true, device.time);
    } else if (goes_back) {
      wait_for(backwards_[pass(stage, microbatch)]);
      device.time += slower * (again_[index(stage)] +
                               (op == Op::backward ? costs.backward : costs.backward_input));
      hand_on(i, stage, false, device.time);
    } else {
      device.time += slower * (op == Op::recompute ? costs.forward : costs.backward_weight);
    }
    device.instruction = i;
    if (goes_back || op == Op::backward_weight) last_backward_[index(stage)] = device;
  }
}

/// What certainly follows a stage's last backward: its gradient is summed, a tie waits for both
/// its ends, and then, or after all that the device computes, the stage is updated and its
/// parameters are collected. In which order a device's updates come depends on the layout.
PassCounts CriticalPasses::finish(double& step) const {
  const int stages = costs_.stages();
  std::vector<double> summed;
  for (int s = 0; s < stages; ++s) {
    summed.push_back(last_backward_[index(s)].time + stages_[index(s)]->sum);
  }
  const bool owner_waits = summed.front() < summed.back();
  const auto complete = [&](int s) {
    const bool tied = costs_.tie() > 0 && (s == 0 || s + 1 == stages);
    return tied ? std::max(summed.front(), summed.back()) + costs_.tie() : summed[index(s)];
  };
  step = 0;
  PassCounts path;
  const auto begin_path = [&](double time) {
    step = time;
    path = {};
    path.stages.resize(index(stages));
  };
  for (int device = 0; device < costs_.depth(); ++device) {
    const Last& last = device_[index(device)];
    double time = last.time;
    for (int s = 0; s < stages; ++s) {
      if (costs_.device_of(s) == device) time += stages_[index(s)]->update;
    }
    if (time <= step) continue;
    begin_path(time);
    for (int s = 0; s < stages; ++s) {
      if (costs_.device_of(s) == device) path.stages[index(s)].update = 1;
    }
    follow(last.instruction, path);
  }
  for (int s = 0; s < stages; ++s) {
    const Last& last = device_[index(costs_.device_of(s))];
    const double begin = std::max(complete(s), last.time);
    const double time = begin + stages_[index(s)]->update + stages_[index(s)]->collect;
    if (time <= step) continue;
    begin_path(time);
    path.stages[index(s)].update = path.stages[index(s)].collect = 1;
    if (last.time >= complete(s)) {
      follow(last.instruction, path);
      continue;
    }
    const bool tied = complete(s) > summed[index(s)];
    path.ties = tied ? 1 : 0;
    const int source = !tied ? s : owner_waits ? stages - 1 : 0;
    path.stages[index(source)].sum = 1;
    follow(last_backward_[index(source)].instruction, path);
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
  place(layout);
  slower_.clear();
  for (int s = 0; s < costs_.stages(); ++s) {
    slower_.push_back(costs_.device_of(s) == device ? much : 1);
  }
  run();
  double step = 0;
  return finish(step);
}

PassCounts CriticalPasses::of(const Layout& layout, double& step) {
  place(layout);
  slower_.assign(stages_.size(), 1);
  run();
  return finish(step);
}

}  // namespace stagecraft
