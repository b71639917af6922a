#include "simulator/analyses/attribution.hpp"

#include <algorithm>
#include <array>

#include "profiles/index.hpp"
#include "simulator/engines/compiled.hpp"
#include "simulator/engines/repeats.hpp"

namespace stagecraft {

namespace {

/// Is this the half of a fused pair that stands for both?
bool counts(const Work& work, int number) {
  return work.lane == Lane::compute && (!work.fused_with || *work.fused_with > number);
}

/// How often each microbatch's work comes: once, but for what repeats.
class Counts {
 public:
  Counts() = default;
  Counts(const Program& program, const WorkTimes& times) {
    if (program.left_out) repeat_ = RepeatFinder(program).get(times.end);
  }
  int of(const Work& work) const {
    return repeat_ ? repeat_->count(work.instruction.microbatch) : 1;
  }
  Duration added() const { return repeat_ ? repeat_->added() : Duration{0}; }

 private:
  std::optional<Repeat> repeat_;
};

/// What one run says: its length, and what each device did in it.
struct Run {
  Duration step{0};
  std::vector<Attribution> devices;  ///< work only
};

Duration& part_of(Attribution& device, Op op) {
  if (op == Op::update) return device.optimizer;
  return op == Op::recompute ? device.recompute : device.compute;
}

Run run(const Program& program, const CompiledProgram& compiled, const Costs& costs) {
  const WorkTimes times = compiled.times(costs);
  const Counts how_often(program, times);
  Run result{.step = {}, .devices = std::vector<Attribution>(index(program.devices))};
  for (int i = 0; i < static_cast<int>(program.work.size()); ++i) {
    const Work& work = program.work[index(i)];
    result.step = std::max(result.step, times.end[index(i)]);
    if (!counts(work, i)) continue;
    Attribution& device = result.devices[index(program.chunks[index(work.chunk)].device)];
    part_of(device, work.instruction.op) +=
        how_often.of(work) * (times.end[index(i)] - times.start[index(i)]);
  }
  result.step += how_often.added();
  return result;
}

Run run(const Program& program, const Costs& costs, const Environment& environment) {
  const EventRun events = run_events(program, costs, environment);
  Run result{.step = step_time(events.timeline),
             .devices = std::vector<Attribution>(index(program.devices))};
  std::vector<Duration> counted(index(program.devices), Duration::min());  // until when
  for (const Span& span : events.timeline.spans) {
    Duration& until = counted[index(span.device)];
    if (span.lane != Lane::compute || span.end <= until) continue;  // half of a fused pair
    part_of(result.devices[index(span.device)], span.instruction.op) +=
        span.end - std::max(span.start, until);
    until = span.end;
  }
  for (std::size_t device = 0; device < result.devices.size(); ++device) {
    Attribution& part = result.devices[device];
    part.waiting_memory = std::min(events.waiting_for_memory[device], result.step - total(part));
  }
  return result;
}

Duration idle_of(const Run& run, std::size_t device) {
  return run.step - total(run.devices[device]);
}

Costs with_free_messages(const Program& program, Costs costs) {
  costs.channels.assign(program.channels.size(), {});
  costs.groups.assign(program.groups.size(), Duration{0});
  return costs;
}

// --- Equal devices ------------------------------------------------------------------------------

/// An operation of compute, and where its cost stands.
struct Operation {
  Op op;
  Duration ChunkCosts::*cost;
};
constexpr std::array operations{Operation{Op::forward, &ChunkCosts::forward},
                                Operation{Op::backward, &ChunkCosts::backward},
                                Operation{Op::backward_input, &ChunkCosts::backward_input},
                                Operation{Op::backward_weight, &ChunkCosts::backward_weight},
                                Operation{Op::recompute, &ChunkCosts::recompute},
                                Operation{Op::update, &ChunkCosts::update}};

/// Every instruction of this operation on a device takes an equal part of the devices' mean.
void spread(const Program& program, const Counts& counts, const Costs& given,
            const Operation& operation, Costs& costs) {
  Duration sum{0};
  std::vector<int> count(index(program.devices), 0);
  for (const Work& work : program.work) {
    if (work.instruction.op != operation.op) continue;
    sum += counts.of(work) * given.chunks[index(work.chunk)].*operation.cost;
    count[index(program.chunks[index(work.chunk)].device)] += counts.of(work);
  }
  for (std::size_t chunk = 0; chunk < costs.chunks.size(); ++chunk) {
    const int instructions = count[index(program.chunks[chunk].device)];
    if (instructions == 0) continue;
    costs.chunks[chunk].*operation.cost = sum / program.devices / instructions;
  }
}

Duration cost_of_pair(const Program& program, const Costs& costs, const Work& forward) {
  const ChunkCosts& own = costs.chunks[index(forward.chunk)];
  if (own.fused) return *own.fused;
  const Work& backward = program.work[index(*forward.fused_with)];
  const ChunkCosts& other = costs.chunks[index(backward.chunk)];
  return own.forward +
         (backward.instruction.op == Op::backward ? other.backward : other.backward_input);
}

/// The same for fused pairs, if there are any.
void spread_pairs(const Program& program, const Counts& counts, const Costs& given, Costs& costs) {
  Duration sum{0};
  std::vector<int> count(index(program.devices), 0);
  for (const Work& work : program.work) {
    if (!work.fused_with || work.instruction.op != Op::forward) continue;
    sum += counts.of(work) * cost_of_pair(program, given, work);
    count[index(program.chunks[index(work.chunk)].device)] += counts.of(work);
  }
  for (std::size_t chunk = 0; chunk < costs.chunks.size(); ++chunk) {
    const int pairs = count[index(program.chunks[chunk].device)];
    if (pairs > 0) costs.chunks[chunk].fused = sum / program.devices / pairs;
  }
}

Costs with_equal_devices(const Program& program, const Counts& counts, const Costs& given) {
  Costs costs = given;
  spread_pairs(program, counts, given, costs);
  for (const Operation& operation : operations) spread(program, counts, given, operation, costs);
  return costs;
}

}  // namespace

Duration total(const Attribution& attribution) {
  return attribution.compute + attribution.recompute + attribution.optimizer +
         attribution.fill_drain + attribution.imbalance + attribution.exposed_communication +
         attribution.waiting_memory;
}

std::vector<Attribution> attribution(const Program& program, const Costs& costs) {
  const CompiledProgram compiled(program);
  const Costs free = with_free_messages(program, costs);
  const Run given = run(program, compiled, costs);
  const Run without_messages = run(program, compiled, free);
  const Counts counts(program, compiled.times(free));
  const Run equal = run(program, compiled, with_equal_devices(program, counts, free));
  std::vector<Attribution> devices = given.devices;
  for (std::size_t device = 0; device < devices.size(); ++device) {
    Attribution& part = devices[device];
    const Duration idle = without_messages.step - total(part);
    part.fill_drain = std::min(idle, idle_of(equal, device));
    part.imbalance = idle - part.fill_drain;
    part.exposed_communication = given.step - without_messages.step;
  }
  return devices;
}

std::vector<Attribution> attribution(const Program& program, const Costs& costs,
                                     const Environment& environment) {
  const Costs free = with_free_messages(program, costs);
  Environment roomy = environment;
  roomy.memory_limits.clear();
  Environment unshared = roomy;
  unshared.network = {};
  Environment even = unshared;
  even.stops.clear();
  even.factors = {};
  const Run given = run(program, costs, environment);
  const Run without_messages = run(program, free, unshared);
  const Run equal = run(program, with_equal_devices(program, Counts(), free), even);
  const Duration exposed = run(program, costs, roomy).step - without_messages.step;
  std::vector<Attribution> devices = given.devices;
  for (std::size_t device = 0; device < devices.size(); ++device) {
    Attribution& part = devices[device];
    const auto left = [&] { return given.step - total(part); };
    part.fill_drain = std::min({left(), idle_of(without_messages, device), idle_of(equal, device)});
    part.exposed_communication = std::clamp(exposed, Duration{0}, left());
    part.imbalance = left();
  }
  return devices;
}

}  // namespace stagecraft
