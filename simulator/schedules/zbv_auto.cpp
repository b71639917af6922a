// V-Half, V-Min and zbv-auto: split backwards on a V within a given memory (after Qi et al., 2024,
// "Pipeline parallelism with controllable memory"; the search is our own).
//
// Device r holds stage r of the way down and stage 2p - 1 - r of the way up. A stage activation
// lives from its F to its W: long on the way down of the first devices, short on their way up, so
// that each device's two lives add up to the same. How steeply F and I run through the V decides
// how long that is. One microbatch in its steady state, on p = 4 devices, one slot per instruction,
// D on the way down, U on the way up:
//
//   V-Min     device 0   F(D)  .    .    .    .    .   .   F(U) I(U) …        every F and I one
//   slot
//             device 1   .     F(D) .    .    .    .  F(U)  .   .   I(U) …    after its input:
//             lives device 2   .     .   F(D)  .    .  F(U)  .    .   .    .   I(U) of 4p slots in
//             all device 3   .     .    .   F(D) F(U)  .   .    .   .    .    .
//
// A new microbatch starts every 6 slots (F, I and W of two stages), so a device holds about 4p / 6
// activations, a third of 1F1B's 2p. V-Half runs the way down at half that speed, F(D) and I(U) two
// slots per device, and holds about p, a half, with a smaller bubble. ZB-V holds all 2p.
//
// The slots only say in which order F and I are preferred. Warm-up and cool-down leave many slots
// empty; list scheduling closes them as memory allows, and puts W into what remains (fill.cpp).
//
//   V-Half    room for p + 2 stage activations
//   V-Min     room for 2 ceil((p + 2) / 3)
//   zbv-auto  room for `in_flight` microbatches, twice as many activations; default p

#include <algorithm>
#include <array>

#include "profiles/error.hpp"
#include "simulator/schedules/fill.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

namespace {

/// When a device does F(D), F(U), I(U) and I(D) of microbatch 0.
using VeeSlots = std::array<int, 4>;

VeeSlots thin_slots(int p, int r) {
  const int gap = p % 3 == 0 ? 2 : 0;  // keeps instructions off each other's slots
  return {r, 2 * p - 1 - r, 2 * p + gap + r, 4 * p + gap - r - 1};
}

VeeSlots half_slots(int p, int r) {
  const int gap = p % 2 == 0 ? 3 : 0;
  return {2 * r, 3 * p - r - 2, 3 * p + gap + 2 * r - 1, 6 * p + gap - r - 2};
}

PreferredOrder by_slots(VeeSlots (*slots_of)(int p, int r), const ScheduleShape& shape) {
  struct Entry {
    int slot;
    Instruction instruction;
  };
  PreferredOrder preferred;
  for (int r = 0; r < shape.devices; ++r) {
    const VeeSlots slots = slots_of(shape.devices, r);
    const int up = 2 * shape.devices - 1 - r;
    std::vector<Entry> entries;
    for (int m = 0; m < shape.microbatches; ++m) {
      entries.push_back({6 * m + slots[0], {Op::forward, r, m}});
      entries.push_back({6 * m + slots[1], {Op::forward, up, m}});
      entries.push_back({6 * m + slots[2], {Op::backward_input, up, m}});
      entries.push_back({6 * m + slots[3], {Op::backward_input, r, m}});
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.slot < b.slot; });
    auto& order = preferred.emplace_back();
    for (const Entry& entry : entries) order.push_back(entry.instruction);
  }
  return preferred;
}

Schedule automatic_vee(std::string_view name, const ScheduleShape& shape, int room) {
  require_counts(name, shape);
  require_two_virtual_stages(name, shape);
  refuse_group(name, shape);
  refuse_warm_up(name, shape);
  require_hints(name, shape);
  ScheduleShape plain = shape;
  plain.in_flight.reset();
  const Schedule full = zb_v(plain);
  return best_filling(
      empty_schedule(name, shape, StagePlacement::vee), {full},
      {by_slots(thin_slots, shape), by_slots(half_slots, shape), without_weights(full)}, shape,
      room);
}

}  // namespace

Schedule v_half(const ScheduleShape& shape) {
  refuse_in_flight("v-half", shape, "zbv-auto");
  return automatic_vee("v-half", shape, shape.devices + 2);
}

Schedule v_min(const ScheduleShape& shape) {
  refuse_in_flight("v-min", shape, "zbv-auto");
  return automatic_vee("v-min", shape, 2 * ((shape.devices + 4) / 3));
}

Schedule zbv_auto(const ScheduleShape& shape) {
  return automatic_vee("zbv-auto", shape, 2 * require_in_flight("zbv-auto", shape));
}

}  // namespace stagecraft
