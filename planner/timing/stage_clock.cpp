#include "planner/timing/stage_clock.hpp"

#include <algorithm>
#include <map>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Places of a stage's times in `times_`.
struct LaneTime {
  enum Kind { forward, backward, backward_input, backward_weight, kinds };

  static Kind of(Op op) {
    switch (op) {
      case Op::forward:
      case Op::recompute: return forward;
      case Op::backward: return backward;
      case Op::backward_input: return backward_input;
      default: return backward_weight;
    }
  }
};

}  // namespace

StageClock::StageClock(const PipelineCosts& costs, const TimedOrder& order, int microbatches)
    : costs_(costs) {
  const std::size_t stages = index(costs.stages());
  list_steps(order, microbatches);
  times_.resize(stages * LaneTime::kinds);
  tails_.resize(stages);
  last_backward_.resize(stages);
  summed_.resize(stages);
  list_channels();
  list_completion();
}

void StageClock::list_steps(const TimedOrder& order, int microbatches) {
  const int stages = costs_.stages();
  std::map<int, int> places;  // places of messages in flight
  std::vector<int> unused;
  const auto arrival = [&](bool goes_back, int stage, int microbatch) {
    return ((goes_back ? stages : 0) + stage) * microbatches + microbatch;
  };
  const auto take = [&](int message) {
    const auto place = places.extract(message).mapped();
    unused.push_back(place);
    return place;
  };
  const auto make = [&](int message) {
    if (unused.empty()) {
      unused.push_back(static_cast<int>(arrivals_.size()));
      arrivals_.emplace_back();
    }
    const int place = unused.back();
    unused.pop_back();
    return places[message] = place;
  };
  for (const auto& [op, stage, microbatch] : order.order) {
    const LaneTime::Kind kind = LaneTime::of(op);
    const bool goes_back = kind == LaneTime::backward || kind == LaneTime::backward_input;
    Step& step = steps_.emplace_back();
    step.stage = stage;
    step.device = costs_.device_of(stage);
    step.time = stage * LaneTime::kinds + kind;
    step.ends = goes_back || kind == LaneTime::backward_weight;
    if (op != Op::forward && !goes_back) continue;
    const int from = goes_back ? stage + 1 : stage - 1, to = goes_back ? stage - 1 : stage + 1;
    if (from >= 0 && from < stages) step.arrival = take(arrival(goes_back, stage, microbatch));
    if (to < 0 || to >= stages) continue;
    step.destination = make(arrival(goes_back, to, microbatch));
    step.channel = goes_back ? stages + to : stage;
  }
}

/// Between equal blocks the messages are equal, too.
void StageClock::list_channels() {
  const std::size_t stages = index(costs_.stages());
  channels_.resize(2 * stages);
  for (int s = 0; s + 1 < costs_.stages(); ++s) {
    const CutCosts& cut = costs_.cut(s, 1);
    Channel &there = channels_[index(s)], &back = channels_[stages + index(s)];
    there.occupancy = cut.there_occupancy;
    there.latency = cut.there_latency;
    back.occupancy = cut.back_occupancy;
    back.latency = cut.back_latency;
  }
}

void StageClock::list_completion() {
  std::vector<int> last(last_backward_.size(), -1);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].ends) last[index(steps_[i].stage)] = static_cast<int>(i);
  }
  for (int s = 0; s < costs_.stages(); ++s) by_completion_.push_back(s);
  std::ranges::stable_sort(by_completion_, {}, [&](int s) { return last[index(s)]; });
}

void StageClock::put(int lane, int stage, const StageTimes& times) {
  Lanes* own = &times_[index(stage) * LaneTime::kinds];
  own[LaneTime::forward].set(lane, times.forward);
  own[LaneTime::backward].set(lane, times.backward);
  own[LaneTime::backward_input].set(lane, times.backward_input);
  own[LaneTime::backward_weight].set(lane, times.backward_weight);
  Tail& tail = tails_[index(stage)];
  tail.sum.set(lane, times.sum);
  tail.update.set(lane, times.update);
  tail.collect.set(lane, times.collect);
}

void StageClock::time_instructions() {
  device_.assign(index(costs_.depth()), {});
  std::ranges::fill(last_backward_, Lanes{});
  for (Channel& channel : channels_) channel.free = {};
  for (const Step& step : steps_) {
    Lanes now = device_[index(step.device)];
    if (step.arrival >= 0) now.raise_to(arrivals_[index(step.arrival)]);
    now.add(times_[index(step.time)]);
    device_[index(step.device)] = now;
    if (step.ends) last_backward_[index(step.stage)] = now;
    if (step.destination < 0) continue;
    // A message leaves when it is ready and those before it have left.
    Channel& channel = channels_[index(step.channel)];
    now.raise_to(channel.free);
    now.add(channel.occupancy);
    channel.free = now;
    now.add(channel.latency);
    arrivals_[index(step.destination)] = now;
  }
}

/// A stage's gradient is summed after its last backward and after the sums before it; tied weights
/// are summed after both of their stages.
void StageClock::time_sums() {
  lane_end_.assign(index(costs_.depth()), {});
  for (const int s : by_completion_) {
    Lanes& sum = summed_[index(s)];
    Lanes& lane = lane_end_[index(costs_.device_of(s))];
    sum = last_backward_[index(s)];
    if (costs_.sums_take_turns()) sum.raise_to(lane);
    sum.add(tails_[index(s)].sum);
    lane = sum;
  }
  const int end = costs_.stages() - 1;
  tie_ = summed_.front();
  tie_.raise_to(summed_.back());
  if (costs_.ties_last()) {
    for (const int s : {0, end}) tie_.raise_to(lane_end_[index(costs_.device_of(s))]);
  }
  tie_.add(costs_.tie());
}

/// Updates stand at the end of what a device computes; collections follow them, one after the
/// other.
void StageClock::time_updates() {
  const int end = costs_.stages() - 1;
  const bool tied = costs_.tie() > 0 || costs_.joins_ends();
  Lanes last = tie_;
  for (const int s : by_completion_) {
    const std::size_t device = index(costs_.device_of(s));
    Lanes own = device_[device];
    own.raise_to(tied && (s == 0 || s == end) ? tie_ : summed_[index(s)]);
    own.add(tails_[index(s)].update);
    if (costs_.sums_take_turns()) {
      device_[device] = own;
      own.raise_to(lane_end_[device]);
    }
    own.add(tails_[index(s)].collect);
    if (costs_.sums_take_turns()) lane_end_[device] = own;
    last.raise_to(own);
  }
  for (int l = 0; l < lanes; ++l) result_[index(l)] = last.get(l);
}

const std::array<double, StageClock::lanes>& StageClock::run() {
  time_instructions();
  time_sums();
  time_updates();
  return result_;
}

}  // namespace stagecraft
