#include <algorithm>

#include "profiles/error.hpp"
#include "simulator/engines/events/engine.hpp"
#include "simulator/values/cost_of.hpp"

namespace stagecraft::events {

namespace {

constexpr int million = 1'000'000;

template <class Table, class Parallel>
void require_parallel(const Table& table, const Parallel& program, std::string_view what,
                      bool may_be_empty = false) {
  if (table.size() == program.size() || (may_be_empty && table.empty())) return;
  fail("simulate: ", what, " of ", table.size(), "; the program has ", program.size());
}

Time checked(Duration duration, std::string_view what, std::size_t which) {
  if (duration < Duration{0}) {
    fail("simulate: ", what, " ", which, " costs ", duration.count(), " ns; expected 0 or more");
  }
  return duration.count();
}

/// Of a fused pair, the forward takes the time of both, if its chunk says how long.
Duration compute_cost(const Program& program, const Costs& costs, int i) {
  const Work& work = program.work[index(i)];
  if (work.fused_with) {
    const int forward = work.instruction.op == Op::forward ? i : *work.fused_with;
    const auto fused = costs.chunks[index(program.work[index(forward)].chunk)].fused;
    if (fused) return i == forward ? *fused : Duration{0};
  }
  return cost_of(costs.chunks[index(work.chunk)], work.instruction.op);
}

/// value × a × b, of factors in parts per million.
std::int64_t scaled(std::int64_t value, int a, int b = million) {
  if (a == million && b == million) return value;
  constexpr Wide whole = static_cast<Wide>(million) * million;
  const Wide product = (static_cast<Wide>(value) * a * b + whole / 2) / whole;
  if (product > INT64_MAX) fail("simulate: times exceed 292 years");
  return static_cast<std::int64_t>(product);
}

class Scale {
 public:
  template <class Parallel>
  Scale(const std::vector<int>& factors, const Parallel& parallel, std::string_view what)
      : factors_(factors) {
    require_parallel(factors, parallel, what, true);
    for (const int factor : factors) {
      if (factor < 0) fail("simulate: ", what, ": expected 0 or more, found ", factor);
    }
  }
  int of(int i) const { return factors_.empty() ? million : factors_[index(i)]; }

 private:
  const std::vector<int>& factors_;
};

/// Null for routes without links. Throws Error (input) for a link that is not there.
std::vector<const Route*> routes(const std::vector<Route>& table, std::size_t size,
                                 std::size_t links) {
  std::vector<const Route*> result(size, nullptr);
  for (std::size_t i = 0; i < table.size(); ++i) {
    for (const int link : table[i].links) {
      if (link >= 0 && index(link) < links) continue;
      fail("simulate: a route crosses link ", link, "; the network has ", links);
    }
    if (table[i].bytes < 0) fail("simulate: a route carries ", table[i].bytes, " bytes");
    if (!table[i].links.empty()) result[i] = &table[i];
  }
  return result;
}

}  // namespace

Timing::Timing(const Precedence& precedence, const Costs& costs, const Environment& environment)
    : duration(index(precedence.nodes), 0) {
  const Program& program = precedence.program;
  const Network& network = environment.network;
  require_parallel(costs.chunks, program.chunks, "costs of chunks: a list");
  require_parallel(costs.channels, program.channels, "costs of channels: a list");
  require_parallel(costs.groups, program.groups, "costs of groups: a list");
  require_parallel(network.channels, program.channels, "routes of channels: a list", true);
  require_parallel(network.groups, program.groups, "routes of groups: a list", true);
  const Scale work_scale(environment.factors.work, program.work, "factors of work: a list");
  const Scale device_scale(environment.factors.device, program.order, "factors of devices: a list");
  const Scale channel_scale(environment.factors.channel, program.channels,
                            "factors of channels: a list");

  for (int i = 0; i < static_cast<int>(program.work.size()); ++i) {
    const Work& work = program.work[index(i)];
    const Duration cost =
        work.group ? costs.groups[index(*work.group)] : compute_cost(program, costs, i);
    const int on_device = work.group ? million : device_scale.of(precedence.device_of(i));
    const Time time = scaled(
        checked(cost, work.group ? "group" : "chunk", index(work.group ? *work.group : work.chunk)),
        work_scale.of(i), on_device);
    Time& total = duration[index(precedence.leader[index(i)])];
    total = work.group ? std::max(total, time) : total + time;
  }
  channel_route = routes(network.channels, program.channels.size(), network.links.size());
  group_route = routes(network.groups, program.groups.size(), network.links.size());
  for (std::size_t i = 0; i < program.channels.size(); ++i) {
    const int factor = channel_scale.of(static_cast<int>(i));
    latency.push_back(scaled(checked(costs.channels[i].latency, "channel", i), factor));
    occupancy.push_back(scaled(checked(costs.channels[i].occupancy, "channel", i), factor));
    channel_bytes.push_back(channel_route[i] ? scaled(channel_route[i]->bytes, factor) : 0);
  }
  for (const Route* route : group_route) group_bytes.push_back(route ? route->bytes : 0);
}

}  // namespace stagecraft::events
