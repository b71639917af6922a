#include "simulator/analyses/sensitivity.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/engines/compiled.hpp"
#include "simulator/engines/repeats.hpp"

namespace stagecraft {

namespace {

void scale(Duration& time, double factor) {
  time = Duration{std::llround(static_cast<double>(time.count()) * factor)};
}

/// The cost of each kind of compute.
constexpr std::pair<Op, Duration ChunkCosts::*> kinds[]{
    {Op::forward, &ChunkCosts::forward},
    {Op::backward, &ChunkCosts::backward},
    {Op::backward_input, &ChunkCosts::backward_input},
    {Op::backward_weight, &ChunkCosts::backward_weight},
    {Op::recompute, &ChunkCosts::recompute},
    {Op::update, &ChunkCosts::update}};

/// A fused pair takes part in whatever its chunk does.
void scale(ChunkCosts& chunk, double factor) {
  for (const auto& [op, time] : kinds) scale(chunk.*time, factor);
  if (chunk.fused) scale(*chunk.fused, factor);
}

void scale(ChannelCosts& channel, double factor) {
  scale(channel.latency, factor);
  scale(channel.occupancy, factor);
}

std::pair<int, int> devices_of(const Program& program, const Channel& channel) {
  return {program.chunks[index(channel.from)].device, program.chunks[index(channel.to)].device};
}

/// Every lever that moves anything.
std::vector<Effect> levers(const Program& program) {
  std::set<int> stages, devices;
  std::set<Op> ops;
  std::set<std::pair<int, int>> links;
  for (const Work& work : program.work) {
    if (work.lane != Lane::compute) continue;
    stages.insert(program.chunks[index(work.chunk)].stage);
    devices.insert(program.chunks[index(work.chunk)].device);
    ops.insert(work.instruction.op);
  }
  for (const Channel& channel : program.channels) links.insert(devices_of(program, channel));
  std::vector<Effect> effects;
  for (const int stage : stages) effects.push_back({.lever = Lever::stage, .index = stage});
  for (const int device : devices) effects.push_back({.lever = Lever::device, .index = device});
  for (const Op op : ops) effects.push_back({.lever = Lever::op, .op = op});
  for (int i = 0; i < static_cast<int>(program.channels.size()); ++i) {
    effects.push_back({.lever = Lever::channel, .index = i});
  }
  for (const auto& [from, to] : links) {
    effects.push_back({.lever = Lever::link, .index = from, .to = to});
  }
  for (int i = 0; i < static_cast<int>(program.groups.size()); ++i) {
    effects.push_back({.lever = Lever::group, .index = i});
  }
  return effects;
}

bool moves(const Effect& effect, const Chunk& chunk) {
  return (effect.lever == Lever::stage && chunk.stage == effect.index) ||
         (effect.lever == Lever::device && chunk.device == effect.index);
}

void scale_op(Costs& costs, Op wanted, double factor) {
  for (const auto& [op, time] : kinds) {
    if (op != wanted) continue;
    for (ChunkCosts& chunk : costs.chunks) scale(chunk.*time, factor);
  }
}

Costs changed(const Program& program, Costs costs, const Effect& effect, double factor) {
  if (effect.lever == Lever::op) scale_op(costs, effect.op, factor);
  if (effect.lever == Lever::channel) scale(costs.channels[index(effect.index)], factor);
  if (effect.lever == Lever::group) scale(costs.groups[index(effect.index)], factor);
  for (std::size_t i = 0; i < costs.chunks.size(); ++i) {
    if (moves(effect, program.chunks[i])) scale(costs.chunks[i], factor);
  }
  for (std::size_t i = 0; effect.lever == Lever::link && i < costs.channels.size(); ++i) {
    const std::pair link{effect.index, effect.to};
    if (devices_of(program, program.channels[i]) == link) scale(costs.channels[i], factor);
  }
  return costs;
}

}  // namespace

std::string to_string(const Effect& effect) {
  switch (effect.lever) {
    case Lever::stage: return concat("stage ", effect.index);
    case Lever::device: return concat("device ", effect.index);
    case Lever::op: return std::string(to_string(effect.op));
    case Lever::channel: return concat("channel ", effect.index);
    case Lever::link: return concat("link ", effect.index, " -> ", effect.to);
    case Lever::group: return concat("group ", effect.index);
  }
  return "";
}

std::vector<Effect> sensitivities(const Program& program, const Costs& costs, double factor) {
  if (!(factor >= 0) || factor == 1) {
    fail_usage("sensitivities: the factor is ", factor, "; expected 0 or more, and not 1");
  }
  const CompiledProgram compiled(program);
  std::vector<Effect> effects = levers(program);
  std::vector<Costs> tables{costs};
  for (const Effect& effect : effects) tables.push_back(changed(program, costs, effect, factor));
  const std::vector<Duration> steps = compiled.steps(tables);
  const auto before = static_cast<double>(steps.front().count());
  for (std::size_t i = 0; i < effects.size(); ++i) {
    effects[i].step = steps[i + 1];
    const auto change = static_cast<double>((steps[i + 1] - steps.front()).count());
    effects[i].elasticity = before > 0 ? change / before / (factor - 1) : 0;
  }
  return effects;
}

namespace {

/// The shape with one more forward ahead on device r, and on those before it as far as they must
/// not have fewer.
ScheduleShape deeper_on(std::size_t r, ScheduleShape shape) {
  const int wanted = ++shape.warm_up[r];
  for (std::size_t i = 0; i < r; ++i) shape.warm_up[i] = std::max(shape.warm_up[i], wanted);
  return shape;
}

/// The step of this schedule; none where it refuses the shape.
std::optional<Duration> step_of(const ScheduleKind& kind, const ScheduleShape& shape,
                                const Costs& costs, const LowerOptions& options) {
  try {
    return CompiledProgram(counted_program(kind, shape, costs, options)).step(costs);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) throw;
    return {};
  }
}

std::string in_words(const std::vector<int>& numbers) {
  std::string text = "warm-up";
  for (const int number : numbers) text += concat(" ", number);
  return text;
}

ScheduleShape with_warm_up(ScheduleShape shape, int slope) {
  for (int r = 0; shape.warm_up.size() < index(shape.devices); ++r) {
    shape.warm_up.push_back(slope * (shape.devices - r - 1) + 1);
  }
  return shape;
}

}  // namespace

std::vector<Duration> one_more_in_flight(const ScheduleShape& shape, const Costs& costs,
                                         const LowerOptions& options) {
  const ScheduleShape own = with_warm_up(shape, 1);
  std::vector<Duration> steps;
  for (std::size_t r = 0; r < own.warm_up.size(); ++r) {
    const Program program =
        counted_program(find_schedule("1f1b"), deeper_on(r, own), costs, options);
    steps.push_back(CompiledProgram(program).step(costs));
  }
  return steps;
}

std::vector<OneMore> one_more_in_flight(const ScheduleKind& kind, const ScheduleShape& shape,
                                        const Costs& costs, const LowerOptions& options) {
  std::vector<OneMore> found;
  if (kind.generate == one_f_one_b || kind.generate == dapple_pb) {
    const ScheduleShape own = with_warm_up(shape, kind.generate == dapple_pb ? 2 : 1);
    const std::vector<Duration> steps = one_more_in_flight(own, costs, options);
    for (std::size_t r = 0; r < steps.size(); ++r) {
      found.push_back({static_cast<int>(r), in_words(deeper_on(r, own).warm_up), steps[r]});
    }
  } else if (kind.generate == zb_auto || kind.generate == zbv_auto) {
    ScheduleShape more = shape;
    more.in_flight = shape.in_flight.value_or(shape.devices) + 1;
    const auto step = step_of(kind, more, costs, options);
    if (step) found.push_back({{}, concat("in flight ", *more.in_flight), *step});
  } else if (kind.generate == interleaved) {
    ScheduleShape more = shape;
    for (int group = shape.group.value_or(shape.devices) + 1; group <= shape.microbatches;
         ++group) {
      more.group = group;
      const auto step = step_of(kind, more, costs, options);
      if (!step) continue;
      found.push_back({{}, concat("group ", group), *step});
      break;
    }
  }
  return found;
}

}  // namespace stagecraft
