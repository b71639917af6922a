// Chimera (Li and Hoefler, SC 2021): copies of the model run through the devices in opposite
// directions, so that each fills the other's bubbles. Two pipes, p = 4, m = 4: capitals for the
// pipe that goes down, small letters for the one that goes up, all instructions equally long.
//
//   device 0   F0 .  F1 f0 b0 f1 b1 B0 .  B1
//   device 1   .  F0 f0 F1 f1 b0 B0 b1 B1 .
//   device 2   .  f0 F0 f1 F1 B0 b0 B1 b1 .
//   device 3   f0 .  f1 F0 B0 F1 B1 b0 .  b1
//
// Time is cut into slots of one instruction. Microbatch i of a pipe passes stage s forward in slot
// 2i + s and backward in slot 2i + 2p - 1 - s, which never claims a slot twice: p is even, so that
// stages that share a device meet odd slots in one direction and even slots in the other. Units of
// p microbatches follow each other after 2p slots (the paper's direct concatenation), since one
// unit leaves the other's bubbles free. With 2f pipes (section 3.6 there) those of one direction
// start p / f devices apart, and each has p / 2f microbatches of a unit.
//
//   step time      m(f + b) + (p - 2)(f + k(b - f))            two pipes, b >= f, k = m / p units
//                  m(f + b) + (2p / q - 2) f                   q pipes, b = f
//   held at most   p / 2 + 1 + min(r, p - 1 - r) on device r   two pipes
//
// The released generator drops microbatches for some shapes (p = 2 with m > 2, p >= 6 with
// m = 3p); where it emits all of them, the order is this one.

#include <algorithm>
#include <utility>

#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules/pipes.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

namespace {

int require_pipes(std::string_view name, const ScheduleShape& shape) {
  const int pipes = shape.pipes.value_or(2);
  if (pipes < 2 || pipes % 2 != 0) {
    fail_usage(name, ": pipes come in pairs, one per direction, so their number must be even, not ",
               pipes, "; nearest legal value: ", pipes < 2 ? "2" : nearest_multiples(pipes, 2));
  }
  if (shape.devices % pipes != 0) {
    fail_usage(name, ": the devices must be a multiple of the ", pipes, " pipes, not ",
               shape.devices, "; nearest legal value: ", nearest_multiples(shape.devices, pipes));
  }
  return pipes;
}

void require_units(std::string_view name, const ScheduleShape& shape, int unit) {
  if (shape.microbatches % unit == 0) return;
  fail_usage(name, ": the microbatches must be a multiple of ", unit, " for ", shape.devices,
             " devices, not ", shape.microbatches,
             "; nearest legal value: ", nearest_multiples(shape.microbatches, unit));
}

/// The instructions of one device with their slots.
using Slots = std::vector<std::pair<int, Instruction>>;

/// Slots of the i-th forward of a pipe through stage s of it, and of its backward.
struct SlotPair {
  int forward = 0;
  int backward = 0;
};

SlotPair slots_of(int i, int s, int devices, int per_unit) {
  const int start = 2 * devices * (i / per_unit) + 2 * (i % per_unit);
  return {start + s, start + 2 * devices - 1 - s};
}

}  // namespace

Schedule in_chimera_slots(std::string_view name, const ScheduleShape& shape,
                          const ChimeraSlot& slot) {
  require_positive_counts(name, shape);
  refuse_virtual_stages(name, shape);
  refuse_group(name, shape);
  refuse_warm_up(name, shape);
  refuse_in_flight(name, shape);
  refuse_sequence_chunks(name, shape);
  const int pipes = require_pipes(name, shape);
  const int p = shape.devices;
  require_units(name, shape, p * slot.instructions / slot.parts);

  Schedule schedule = empty_pipes(name, shape, pipes, shape.microbatches * slot.parts);
  schedule.parts = slot.parts;
  std::vector<Slots> devices(schedule.devices.size());
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const int device = schedule.device_of_stage[static_cast<std::size_t>(stage)];
    Slots& slots = devices[static_cast<std::size_t>(device)];
    for (int m = 0; m < schedule.microbatches; ++m) {
      const auto [forward, backward] = slots_of(m / slot.instructions, stage % p, p, p / pipes);
      slots.push_back({forward, {Op::forward, stage, m}});
      slots.push_back({backward, {Op::backward, stage, m}});
    }
  }
  for (std::size_t device = 0; device < devices.size(); ++device) {
    std::sort(devices[device].begin(), devices[device].end());
    for (const auto& [time, instruction] : devices[device]) {
      schedule.devices[device].push_back(instruction);
    }
  }
  return schedule;
}

Schedule chimera(const ScheduleShape& shape) {
  return in_chimera_slots("chimera", shape, {});
}

}  // namespace stagecraft
