// Interleaved 1F1B (Narayanan et al., SC 2021): 1F1B over v stages per device, stage s on device s
// mod p.
//
//   device 0   F0 F1 f0 f1 F2 b0 F3 b1 f2 B0 f3 B1 b2 b3 B2 B3      p = 2, v = 2, m = 4, N = 2:
//   device 1   F0 F1 f0 b0 f1 b1 F2 B0 F3 B1 f2 b2 f3 b3 B2 B3      capitals for stages 0 and 1,
//                                                                   small letters for 2 and 3
//
// Microbatches come in groups of N (default p). A device takes a whole group through its first
// stage, then through its second, and so on: position q of that list is its q-th forward, and, with
// the stages reversed, its q-th backward. The warm-up of device r is 2(p - r - 1) + (v - 1)N
// forwards; then forward and backward alternate.
//
//   step time      m(f + b) + (p - 1)(f + b) / v
//   held at most   2(p - r - 1) + (v - 1)N + 1 of the device's m v stage activations
//
// The next stage's forward of a group's first microbatch can run without a gap only if the group
// lasts a whole round trip, N >= p. That holds for the ragged last group too: with 0 < m mod N < p
// devices would wait for each other.

#include <algorithm>
#include <string>

#include "profiles/error.hpp"
#include "simulator/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

namespace {

bool fits(int devices, int microbatches, int group) {
  if (group < devices || group > microbatches) return false;
  const int rest = microbatches % group;
  return rest == 0 || rest >= devices;
}

std::string nearest_microbatches(int devices, int microbatches, int group) {
  int below = microbatches;
  while (below > 0 && !fits(devices, below, group)) --below;
  int above = microbatches;
  while (!fits(devices, above, group)) ++above;
  return below > 0 ? concat(below, " or ", above) : concat(above);
}

/// Empty when no group fits this many microbatches.
std::string nearest_group(int devices, int microbatches, int group) {
  for (int distance = 0; distance <= microbatches + group; ++distance) {
    if (fits(devices, microbatches, group - distance)) return concat(group - distance);
    if (fits(devices, microbatches, group + distance)) return concat(group + distance);
  }
  return "";
}

void require_group(int devices, int microbatches, int group) {
  if (fits(devices, microbatches, group)) return;
  std::string advice;
  if (group >= devices) {
    advice += concat("; nearest legal microbatches for this group: ",
                     nearest_microbatches(devices, microbatches, group));
  }
  const std::string other = nearest_group(devices, microbatches, group);
  if (!other.empty()) {
    advice += concat("; nearest legal group for ", microbatches, " microbatches: ", other);
  }
  fail_usage(
      "interleaved: needs devices <= group <= microbatches, and microbatches mod group 0 or "
      "at least devices, but there are ",
      devices, " devices, a group of ", group, " and ", microbatches, " microbatches", advice);
}

struct Position {
  int turn = 0;  ///< which of the device's stages, in forward order
  int microbatch = 0;
};

/// Every pair of a device's stage and a microbatch, in the order forwards take them.
std::vector<Position> forward_list(const ScheduleShape& shape, int group) {
  std::vector<Position> list;
  for (int first = 0; first < shape.microbatches; first += group) {
    const int end = std::min(first + group, shape.microbatches);
    for (int turn = 0; turn < shape.virtual_stages; ++turn) {
      for (int m = first; m < end; ++m) list.push_back({turn, m});
    }
  }
  return list;
}

std::vector<Instruction> device_order(const ScheduleShape& shape, const std::vector<Position>& list,
                                      int device, int warm_up) {
  const auto forward = [&](Position position) {
    return Instruction{Op::forward, position.turn * shape.devices + device, position.microbatch};
  };
  const auto backward = [&](Position position) {
    const int turn = shape.virtual_stages - 1 - position.turn;
    return Instruction{Op::backward, turn * shape.devices + device, position.microbatch};
  };
  std::vector<Instruction> order;
  std::size_t forwards = 0;
  const auto ahead = static_cast<std::size_t>(warm_up);
  for (; forwards < std::min(ahead, list.size()); ++forwards) {
    order.push_back(forward(list[forwards]));
  }
  for (const Position& position : list) {
    if (forwards < list.size()) order.push_back(forward(list[forwards++]));
    order.push_back(backward(position));
  }
  return order;
}

/// With one stage per device there is nothing to interleave.
Schedule without_virtual_stages(ScheduleShape shape) {
  shape.group.reset();
  Schedule schedule = one_f_one_b(shape);
  schedule.name = "interleaved";
  return schedule;
}

}  // namespace

Schedule interleaved(const ScheduleShape& shape) {
  require_counts("interleaved", shape);
  refuse_warm_up("interleaved", shape);
  if (shape.virtual_stages == 1) return without_virtual_stages(shape);
  const int group = shape.group.value_or(shape.devices);
  require_group(shape.devices, shape.microbatches, group);

  Schedule schedule = empty_schedule("interleaved", shape);
  const std::vector<Position> list = forward_list(shape, group);
  for (int r = 0; r < shape.devices; ++r) {
    const int warm_up = 2 * (shape.devices - r - 1) + (shape.virtual_stages - 1) * group;
    schedule.devices[static_cast<std::size_t>(r)] = device_order(shape, list, r, warm_up);
  }
  return schedule;
}

}  // namespace stagecraft
