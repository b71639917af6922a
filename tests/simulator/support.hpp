// What the simulator's tests share: shapes to sweep, and small programs to look at.

#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/lowering/lower.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft::tests {

using namespace std::chrono_literals;

/// f and b in the formulas of many tests.
inline constexpr Duration forward_time = 10ms;
inline constexpr Duration backward_time = 20ms;

inline ScheduleShape plain_shape(int devices, int microbatches) {
  return {.devices = devices, .microbatches = microbatches};
}

/// A value for each device, from a formula in r.
template <class Formula>
std::vector<int> per_device(int devices, const Formula& formula) {
  std::vector<int> values;
  for (int r = 0; r < devices; ++r) values.push_back(formula(r));
  return values;
}

/// Sent in a timeline, of either direction.
inline int message_count(const Timeline& timeline) {
  int sum = 0;
  for (const Op op : {Op::send_activation, Op::send_gradient}) {
    for (const int count : messages_sent(timeline, op)) sum += count;
  }
  return sum;
}

/// The schedule of this kind, or none where it refuses the shape.
inline std::optional<Schedule> generated(const ScheduleKind& kind, const ScheduleShape& shape) {
  try {
    return kind.generate(shape);
  } catch (const Error&) {
    return {};
  }
}

/// Device costs of one microbatch; a virtual stage takes 1/v of them.
inline ChunkCosts chunk_costs(Duration forward, Duration backward, int virtual_stages = 1) {
  return {.forward = forward / virtual_stages,
          .backward = backward / virtual_stages,
          .recompute = forward / virtual_stages};
}

/// The same for schedules that split backwards; a whole one takes both halves.
inline ChunkCosts split_costs(Duration forward, Duration input, Duration weight,
                              int virtual_stages = 1) {
  ChunkCosts costs = chunk_costs(forward, input + weight, virtual_stages);
  costs.backward_input = input / virtual_stages;
  costs.backward_weight = weight / virtual_stages;
  return costs;
}

inline Timeline run(const Schedule& schedule, const ChunkCosts& costs,
                    Duration transfer = Duration{0}, const LowerOptions& options = {}) {
  const Program program = lower(schedule, options);
  return simulate(program, uniform(program, costs, transfer));
}

/// "F0.0 SF0.0 …": one device's issue order, one lane of it or all.
inline std::string order_text(const Program& program, int device) {
  std::string text;
  for (const int item : program.order[index(device)]) {
    text += (text.empty() ? "" : " ") + to_string(program.work[index(item)].instruction);
  }
  return text;
}

inline int device_of(const Program& program, int work) {
  return program.chunks[index(program.work[index(work)].chunk)].device;
}

inline std::vector<int> waits_of(const Program& program, int work) {
  const IndexRange range = program.work[index(work)].waits;
  return {begin_of(program.waits, range), end_of(program.waits, range)};
}

/// DAPPLE's policy B.
inline std::vector<int> deep_warm_up(int devices) {
  std::vector<int> warm_up;
  for (int r = 0; r < devices; ++r) warm_up.push_back(2 * (devices - r) - 1);
  return warm_up;
}

struct Shape {
  int devices = 1;
  int microbatches = 1;
};

/// Every number of devices up to 16, with fewer, as many, and more microbatches.
inline std::vector<Shape> plain_shapes() {
  std::vector<Shape> shapes;
  for (int p = 1; p <= 16; ++p) {
    for (const int m : {1, 2, 3, 7, 16, 33}) shapes.push_back({p, m});
  }
  return shapes;
}

/// Legal interleaved shapes with at least two stages per device, whole and ragged groups among
/// them.
inline std::vector<ScheduleShape> interleaved_shapes() {
  std::vector<ScheduleShape> shapes;
  for (const int p : {1, 2, 3, 4, 5, 8}) {
    for (const int v : {2, 3, 4}) {
      for (const int group : {p, p + 1, 2 * p}) {
        for (const int m : {group, group + p, 2 * group, 3 * group + p}) {
          if (m % group != 0 && m % group < p) continue;
          shapes.push_back({.devices = p, .microbatches = m, .virtual_stages = v, .group = group});
        }
      }
    }
  }
  return shapes;
}

/// Shapes to try on any row of the table: few and many devices, microbatches and virtual stages, as
/// far as the row's constraints allow.
inline std::vector<ScheduleShape> legal_shapes(const ScheduleKind& kind, int most_devices = 6) {
  std::vector<ScheduleShape> shapes;
  for (int p = 1; p <= most_devices; ++p) {
    for (const int m : {1, p, p + 1, 3 * p, 17}) {
      for (const int v : {1, 2, 3, 4}) {
        ScheduleShape shape{.devices = p, .microbatches = m, .virtual_stages = v};
        try {
          kind.generate(shape);
          shapes.push_back(shape);
        } catch (const Error&) {
          // Outside of the row's constraints.
        }
      }
    }
  }
  return shapes;
}

/// Numbers that are the same on every machine (distributions of the standard library are not).
class Random {
 public:
  explicit Random(unsigned seed) : bits_(seed) {}
  /// In [0, end).
  int below(int end) { return static_cast<int>(bits_() % static_cast<unsigned>(end)); }
  /// In [first, last].
  int between(int first, int last) { return first + below(last - first + 1); }

 private:
  std::mt19937 bits_;
};

/// What random schedules may have besides stages on devices.
struct RandomKinds {
  int most_pipes = 1;
  int most_pieces = 1;
  bool fuses = false;
};

/// Any order that can be carried out: devices take turns at random, each doing some instruction
/// whose inputs exist. Stages are anywhere, backwards in any order, whole or in two halves.
class RandomSchedule {
 public:
  RandomSchedule(Random& random, const RandomKinds& kinds) : random_(random), kinds_(kinds) {
    const int devices = random.between(1, 4);
    const int stages = random.between(devices, 6);
    const int microbatches = random.between(1, 5);
    halves_ = random.below(2) == 1;
    const auto up_to = [&](int most) { return most > 1 ? random.between(1, most) : 1; };
    schedule_.name = "random";
    schedule_.pipes = up_to(std::min(kinds.most_pipes, devices));
    schedule_.sequence_chunks = up_to(kinds.most_pieces);
    schedule_.stages = stages * schedule_.pipes;
    schedule_.microbatches = microbatches * schedule_.sequence_chunks;
    for (int s = 0; s < stages; ++s) {
      schedule_.device_of_stage.push_back(s < devices ? s : random.below(devices));
    }
    for (int s = stages; s < schedule_.stages; ++s) {
      schedule_.device_of_stage.push_back((schedule_.device_of_stage[index(s - stages)] + 1) %
                                          devices);
    }
    schedule_.devices.resize(index(devices));
    if (kinds.fuses) schedule_.fused.resize(index(devices));
    done_.resize(index(schedule_.stages), std::vector<State>(index(schedule_.microbatches)));
  }

  Schedule run() {
    for (auto possible = candidates(); !possible.empty(); possible = candidates()) {
      const Instruction chosen = pick(possible);
      if (kinds_.fuses && chosen.op == Op::forward && random_.below(2) == 1) fuse(chosen, possible);
      carry_out(chosen);
      if (const auto partner = std::exchange(partner_, {})) carry_out(*partner);
    }
    return schedule_;
  }

 private:
  struct State {
    bool forward = false, backward = false, weight = false;
  };

  Instruction pick(const std::vector<Instruction>& from) {
    return from[index(random_.below(static_cast<int>(from.size())))];
  }

  std::vector<Instruction> candidates() const {
    std::vector<Instruction> possible;
    for (int s = 0; s < schedule_.stages; ++s) {
      for (int m = 0; m < schedule_.microbatches; ++m) {
        const State& here = done_[index(s)][index(m)];
        if (!here.forward && fed(s, m)) possible.push_back({Op::forward, s, m});
        if (here.forward && !here.backward && answered(s, m)) {
          possible.push_back({halves_ ? Op::backward_input : Op::backward, s, m});
        }
        if (here.backward && !here.weight) possible.push_back({Op::backward_weight, s, m});
      }
    }
    return possible;
  }

  bool fed(int s, int m) const {
    const bool first = s % stages_per_pipe(schedule_) == 0;
    const bool whole = m % schedule_.sequence_chunks == 0;
    return (first || done_[index(s - 1)][index(m)].forward) &&
           (whole || done_[index(s)][index(m - 1)].forward);
  }

  bool answered(int s, int m) const {
    const bool last = (s + 1) % stages_per_pipe(schedule_) == 0;
    const bool whole = (m + 1) % schedule_.sequence_chunks == 0;
    return (last || done_[index(s + 1)][index(m)].backward) &&
           (whole || done_[index(s)][index(m + 1)].backward);
  }

  int device_of(const Instruction& it) const { return schedule_.device_of_stage[index(it.stage)]; }

  /// Chooses a backward to run with this forward, if there is one.
  void fuse(const Instruction& forward, const std::vector<Instruction>& possible) {
    std::vector<Instruction> partners;
    for (const Instruction& it : possible) {
      if (it.op == Op::backward && device_of(it) == device_of(forward)) partners.push_back(it);
    }
    if (partners.empty()) return;
    partner_ = pick(partners);
    const auto device = index(device_of(forward));
    schedule_.fused[device].push_back(static_cast<int>(schedule_.devices[device].size()));
  }

  void carry_out(const Instruction& it) {
    State& here = done_[index(it.stage)][index(it.microbatch)];
    if (it.op == Op::forward) here.forward = true;
    if (it.op == Op::backward || it.op == Op::backward_input) here.backward = true;
    if (it.op == Op::backward || it.op == Op::backward_weight) here.weight = true;
    schedule_.devices[index(device_of(it))].push_back(it);
  }

  Random& random_;
  RandomKinds kinds_;
  bool halves_ = false;
  Schedule schedule_;
  std::vector<std::vector<State>> done_;
  std::optional<Instruction> partner_;
};

inline Schedule random_schedule(Random& random, const RandomKinds& kinds = {}) {
  return RandomSchedule(random, kinds).run();
}

/// Several copies of the model, pieces of sequences, and fused pairs.
inline constexpr RandomKinds all_kinds{.most_pipes = 3, .most_pieces = 3, .fuses = true};

/// Replicas for every pipeline device, sizes of everything, recomputation and ties here and there,
/// sharded optimizers and norms of all kinds.
inline LowerOptions random_options(Random& random, const Schedule& schedule) {
  LowerOptions options;
  options.replica_policy = random.below(2) == 1 ? ReplicaPolicy::split : ReplicaPolicy::round_robin;
  options.rows = random.between(3, 7);
  std::vector<std::vector<int>> replicas;
  int devices = 0;
  for (std::size_t d = 0; d < schedule.devices.size(); ++d) {
    auto& list = replicas.emplace_back();
    for (int count = random.between(1, 3); count > 0; --count) list.push_back(devices++);
  }
  for (int s = 0; s < schedule.stages; ++s) {
    options.replicas.push_back(replicas[index(schedule.device_of_stage[index(s)])]);
    options.recompute.push_back(random.below(2) == 1 ? Recompute::full : Recompute::none);
    options.boundary.push_back(random.between(1, 500));
    auto& memory = options.memory.emplace_back();
    for (std::size_t r = 0; r < options.replicas.back().size(); ++r) {
      memory.push_back({.parameters = random.below(1000),
                        .gradients = random.below(1000),
                        .optimizer = random.below(1000),
                        .saved = random.below(5000),
                        .saved_for_weight = random.below(2000),
                        .input = random.below(500),
                        .output = random.below(500),
                        .workspace = random.below(800)});
    }
  }
  if (stages_per_pipe(schedule) > 1 && random.below(2) == 1) {
    options.ties.push_back({.owner = 0, .user = stages_per_pipe(schedule) - 1, .bytes = 64});
  }
  const bool shards_line_up = schedule.pipes == 1 || options.ties.empty();
  if (shards_line_up && random.below(2) == 1) options.sharding = Sharding::zero1;
  if (schedule.weights == WeightPolicy::flush) {
    options.norm = static_cast<GradientNorm>(random.below(3));
  }
  return options;
}

inline Costs random_costs(Random& random, const Program& program, int most = 50) {
  const auto time = [&] { return Duration{random.below(most + 1)}; };
  Costs costs;
  for (std::size_t i = 0; i < program.chunks.size(); ++i) {
    costs.chunks.push_back({.forward = time(),
                            .backward = time(),
                            .backward_input = time(),
                            .backward_weight = time(),
                            .recompute = time(),
                            .update = time()});
  }
  for (std::size_t i = 0; i < program.channels.size(); ++i) {
    costs.channels.push_back({.latency = time(), .occupancy = time()});
  }
  for (std::size_t i = 0; i < program.groups.size(); ++i) costs.groups.push_back(time());
  return costs;
}

struct RandomCase {
  Program program;
  Costs costs;
};

inline RandomCase random_case(Random& random, const RandomKinds& kinds = {}, int most_cost = 50) {
  const Schedule schedule = random_schedule(random, kinds);
  Program program = lower(schedule, random_options(random, schedule));
  Costs costs = random_costs(random, program, most_cost);
  return {std::move(program), std::move(costs)};
}

/// Without replicas, memory and all else that `random_options` draws.
inline RandomCase plain_random_case(Random& random) {
  Program program = lower(random_schedule(random));
  Costs costs = random_costs(random, program);
  return {std::move(program), std::move(costs)};
}

/// As many replicas of each device, one behind the other, which do the same at the same times.
inline Timeline replicated(const Timeline& timeline, int replicas) {
  Timeline many = timeline;
  many.devices = timeline.devices * replicas;
  many.spans.clear();
  many.memory.clear();
  for (int device = 0; device < many.devices; ++device) {
    const int replica = device % replicas;
    for (Span span : timeline.spans) {
      if (span.device != device / replicas) continue;
      span.device = device;
      if (span.peer) span.peer = *span.peer * replicas + replica;
      many.spans.push_back(span);
    }
  }
  for (const auto& samples : timeline.memory) {
    many.memory.insert(many.memory.end(), static_cast<std::size_t>(replicas), samples);
  }
  return many;
}

}  // namespace stagecraft::tests
