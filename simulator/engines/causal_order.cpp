#include "simulator/engines/causal_order.hpp"

#include <algorithm>
#include <tuple>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/engines/clock.hpp"

namespace stagecraft {

namespace {

/// Nothing is free, so that what comes later starts later; only a receive starts with its send.
Costs nominal_costs(const Program& program) {
  const Duration slot{100};
  const Duration moment{1};
  const ChunkCosts chunk{.forward = slot,
                         .backward = 2 * slot,
                         .backward_input = slot,
                         .backward_weight = slot,
                         .recompute = slot,
                         .update = moment};
  Costs costs = uniform(program, chunk, moment);
  for (ChannelCosts& channel : costs.channels) channel.occupancy = moment;
  for (Duration& group : costs.groups) group = moment;
  return costs;
}

/// Whether both are one collective, or one fused pair, given that they start at once.
bool meet(const Work& a, const Work& b, int number_of_b) {
  return a.fused_with == number_of_b || (a.group && a.group == b.group);
}

}  // namespace

CausalOrder causal_order(const Program& program) {
  Clock clock(program, nominal_costs(program));
  clock.run();
  CausalOrder order;
  order.works.reserve(program.work.size());
  for (const auto& issued : program.order) {
    order.works.insert(order.works.end(), issued.begin(), issued.end());
  }
  const auto key = [&](int i) {
    const Work& item = program.work[index(i)];
    const int met = item.fused_with ? std::min(i, *item.fused_with) : item.group.value_or(-1);
    return std::tuple(clock.start(i), item.lane, met, i);
  };
  std::sort(order.works.begin(), order.works.end(), [&](int a, int b) { return key(a) < key(b); });
  const auto joins = [&](int a, int b) {
    return clock.start(a) == clock.start(b) &&
           meet(program.work[index(a)], program.work[index(b)], b);
  };
  for (int i = 0; i < static_cast<int>(order.works.size()); ++i) {
    const bool same =
        i > 0 && joins(order.works[index(order.ranges.back().first)], order.works[index(i)]);
    if (same) {
      order.ranges.back().end = i + 1;
    } else {
      order.ranges.push_back({i, i + 1});
    }
  }
  return order;
}

int own_send(const Program& program, int receive) {
  const Work& item = program.work[index(receive)];
  for (int w = item.waits.first; w < item.waits.end; ++w) {
    const int on = program.waits[index(w)];
    const Work& other = program.work[index(on)];
    if (is_send(other.instruction.op) && other.channel == item.channel) return on;
  }
  throw Error(ErrorKind::check, concat("simulate: ", describe(program, receive),
                                       " waits for no send of its channel"));
}

}  // namespace stagecraft
