#include "simulator/engines/compiled.hpp"

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/engines/exact_times.hpp"
#include "simulator/values/cost_of.hpp"

namespace stagecraft {

namespace {

using Time = std::int64_t;

void require_size(std::size_t listed, std::size_t expected, std::string_view what) {
  if (listed == expected) return;
  fail("simulate: costs list ", listed, " ", what, "; the program has ", expected);
}

}  // namespace

CompiledProgram::Time CompiledProgram::price_in(const Costs& costs, const Price& price) {
  const std::size_t i = index(price.index);
  switch (price.kind) {
    case Price::Kind::nothing: return 0;
    case Price::Kind::compute: return cost_of(costs.chunks[i], price.op).count();
    case Price::Kind::fused: {
      if (costs.chunks[i].fused) return costs.chunks[i].fused->count();
      return exact_sum(costs.chunks[i].forward.count(),
                       cost_of(costs.chunks[index(price.partner)], price.op).count());
    }
    case Price::Kind::occupancy: return costs.channels[i].occupancy.count();
    case Price::Kind::latency: return costs.channels[i].latency.count();
    case Price::Kind::group: return costs.groups[i].count();
  }
  return 0;
}

/// No path through the nodes is longer than all of them together: if that fits, every time does.
std::vector<Time> CompiledProgram::prices(const Costs& costs, int factor) const {
  require_size(costs.chunks.size(), chunks_, "chunks");
  require_size(costs.channels.size(), channels_, "channels");
  require_size(costs.groups.size(), groups_, "groups");
  std::vector<Time> times;
  Time total = 0;
  for (std::size_t i = 0; i < prices_.size(); ++i) {
    const Time time = price_in(costs, prices_[i]);
    if (time < 0) fail("simulate: a cost is ", time, " ns; expected 0 or more");
    total = exact_sum(total, exact_product(time, uses_[i]));
    times.push_back(time);
  }
  exact_product(total, factor);
  return times;
}

// --- One table of costs -------------------------------------------------------------------------

/// Tells each node's value, and returns the latest end.
template <class Note>
Time CompiledProgram::run(const std::vector<Time>& prices, const Note& note) const {
  std::vector<Time> slots(slots_, 0);
  for (const Node& node : nodes_) {
    const Time second = slots[node.second] + prices[node.delay];
    const Time value = std::max(slots[node.first], second) + prices[node.cost];
    slots[node.target] = value;
    note(value);
  }
  Time latest = 0;
  for (const Instant& end : ends_) latest = std::max(latest, slots[end.value] + prices[end.delay]);
  return latest;
}

Duration CompiledProgram::step_of(const WorkTimes& times) const {
  Duration step{0};
  for (const Duration end : times.end) step = std::max(step, end);
  return step + repeats_->get(times.end).added();
}

Duration CompiledProgram::step(const Costs& costs) const {
  if (repeats_) return step_of(times(costs));
  return Duration{run(prices(costs), [](Time) {})};
}

WorkTimes CompiledProgram::times(const Costs& costs) const {
  const std::vector<Time> price = prices(costs);
  std::vector<Time> values{0};
  values.reserve(nodes_.size() + 1);
  run(price, [&](Time value) { values.push_back(value); });
  WorkTimes times;
  for (const Span& work : works_) {
    const Time end = values[work.end.value] + price[work.end.delay];
    times.end.emplace_back(end);
    times.start.emplace_back(end - price[work.cost] - price[work.latency]);
  }
  return times;
}

// --- For a clock elsewhere ----------------------------------------------------------------------

/// Slots are used again; who reads one means the node that has written it last.
CompiledTables CompiledProgram::tables() const {
  if (repeats_) repeats_->refuse("a clock elsewhere");
  CompiledTables tables{.prices = prices_, .nodes = {}, .works = {}};
  std::vector<std::uint32_t> writer(slots_, 0);
  tables.nodes.reserve(nodes_.size());
  for (const Node& node : nodes_) {
    tables.nodes.push_back({writer[node.first], writer[node.second], node.delay, node.cost});
    writer[node.target] = static_cast<std::uint32_t>(tables.nodes.size());
  }
  tables.works.reserve(works_.size());
  for (const Span& work : works_)
    tables.works.push_back({work.end.value, work.end.delay, work.cost, work.latency});
  return tables;
}

}  // namespace stagecraft
