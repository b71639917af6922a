// zb-auto: the best split-backward order we find for given durations and a given memory (after the
// automatic schedules of Qi et al., ICLR 2024; the search is our own).
//
//   device 0   F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5      p = 3, m = 6,
//   device 1   .  F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 …       all equally long,
//   device 2   .  .  F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 …       memory for 6 microbatches
//
// ZB-H1 and ZB-H2 fix when a W is done; here it fills whatever gap is long enough. Candidates
// differ in how many forwards each device runs ahead, between 1F1B's p - r and three times that, in
// how much a W may delay others, and in how far instructions may overtake each other (fill.cpp).
// The best is the one with the least step time plus longest span.
//
// The memory is that of `in_flight` microbatches per device, p by default. By default an activation
// stays until W has ended; where I already frees most of it (the hints say how much), the same
// memory holds far more waiting W. zb-1p and zb-2p have memory for p and 2p microbatches.

#include <algorithm>

#include "profiles/error.hpp"
#include "simulator/schedules/fill.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"
#include "simulator/schedules/zero_bubble.hpp"

namespace stagecraft {

namespace {

/// Forwards until the first gradient is back, when `distance` devices are left, itself included.
int round_trip(int distance, const ScheduleHints& hints) {
  const Duration there = distance * hints.forward + (distance - 1) * hints.transfer;
  const Duration back = (distance - 1) * (hints.backward_input + hints.transfer);
  const Duration forward = std::max(hints.forward, Duration{1});
  return static_cast<int>(std::min<Duration::rep>((there + back) / forward, 1'000'000));
}

/// How many microbatches a device may run ahead, in several degrees of boldness.
std::vector<int> depths(int distance, const ScheduleHints& hints) {
  return {distance,
          (3 * distance + 1) / 2,
          2 * distance - 1,
          2 * distance,
          2 * distance + 1,
          2 * distance + 2,
          (9 * distance + 3) / 4,
          (5 * distance + 1) / 2,
          3 * distance,
          std::max(round_trip(distance, hints) - 1, 1),
          round_trip(distance, hints)};
}

std::vector<PreferredOrder> preferred_orders(const ScheduleShape& shape) {
  std::vector<PreferredOrder> orders;
  for (std::size_t degree = 0; degree < depths(1, shape.hints).size(); ++degree) {
    Schedule schedule = empty_schedule("", shape);
    for (int r = 0; r < shape.devices; ++r) {
      const int depth = depths(shape.devices - r, shape.hints)[degree];
      schedule.devices[static_cast<std::size_t>(r)] =
          zero_bubble_order(r, shape.microbatches, depth, shape.microbatches);
    }
    orders.push_back(without_weights(schedule));
  }
  return orders;
}

Schedule automatic_zero_bubble(std::string_view name, const ScheduleShape& shape, int in_flight) {
  require_counts(name, shape);
  refuse_virtual_stages(name, shape, "zbv-auto");
  refuse_group(name, shape);
  refuse_warm_up(name, shape);
  require_hints(name, shape);
  ScheduleShape plain = shape;
  plain.in_flight.reset();
  return best_filling(empty_schedule(name, shape), {zb_h1(plain), zb_h2(plain)},
                      preferred_orders(shape), shape, in_flight);
}

}  // namespace

Schedule zb_auto(const ScheduleShape& shape) {
  return automatic_zero_bubble("zb-auto", shape, require_in_flight("zb-auto", shape));
}

Schedule zb_1p(const ScheduleShape& shape) {
  refuse_in_flight("zb-1p", shape, "zb-auto");
  return automatic_zero_bubble("zb-1p", shape, shape.devices);
}

Schedule zb_2p(const ScheduleShape& shape) {
  refuse_in_flight("zb-2p", shape, "zb-auto");
  return automatic_zero_bubble("zb-2p", shape, 2 * shape.devices);
}

}  // namespace stagecraft
