// A program made ready to run: its works as nodes, each with its costs and followers.

#include <algorithm>

#include "profiles/error.hpp"
#include "simulator/events/engine.hpp"

namespace stagecraft::events {

Engine::Engine(const Precedence& precedence, const Costs& costs, const Environment& environment,
               int together)
    : precedence_(precedence),
      program_(precedence.program),
      environment_(environment),
      nodes_(precedence.nodes),
      limited_(!environment.memory_limits.empty()),
      flexible_(!environment.stops.empty() ||
                environment.slow_down != std::array<int, lanes.size()>{}),
      traffic_(environment.network),
      memory_time_(index(program_.devices), 0) {
  if (__builtin_mul_overflow(nodes_, together, &total_)) fail("simulate: too many iterations");
  prepare_nodes(Timing(precedence, costs, environment));
  prepare_followers();
  prepare_stops(environment.stops);
}

void Engine::prepare_nodes(const Timing& timing) {
  for (int node = 0; node < nodes_; ++node) {
    node_table_.push_back(precedence_.is_point(node) ? Node{} : prepare_node(timing, node));
  }
}

Engine::Node Engine::prepare_node(const Timing& timing, int i) const {
  const Work& work = precedence_.work(i);
  Node node{.duration = timing.duration[index(i)], .device = precedence_.device_of(i)};
  switch (work.lane) {
    case Lane::compute: node.kind = Kind::compute; break;
    case Lane::send: {
      const std::size_t channel = index(*work.channel);
      node.kind = Kind::send;
      node.duration = timing.occupancy[channel];
      node.latency = timing.latency[channel];
      node.partner = precedence_.receive_of[index(i)];
      node.route = timing.channel_route[channel];
      node.bytes = timing.channel_bytes[channel];
      break;
    }
    case Lane::receive:
      node.kind = Kind::receive;
      node.partner = precedence_.send_of[index(i)];
      break;
    case Lane::collective:
      node.kind = Kind::collective;
      node.route = timing.group_route[index(*work.group)];
      node.bytes = timing.group_bytes[index(*work.group)];
      break;
  }
  for (const int member : members_of(i)) {
    node.forward |= precedence_.work(member).instruction.op == Op::forward;
    if (precedence_.device_of(member) != node.device) continue;
    node.allocates += bytes_of(precedence_.work(member).allocates, program_.allocations);
    node.frees += bytes_of(precedence_.work(member).frees, program_.releases);
  }
  return node;
}

/// By node and moment, in one table; and how many of its arcs a node of each iteration waits for.
void Engine::prepare_followers() {
  const std::vector<Arc>& arcs = precedence_.arcs;
  const auto row = [](const Arc& arc) {
    return index(arc.from) * moments + static_cast<std::size_t>(arc.moment);
  };
  int longest = 0;
  std::vector<int> next(index(nodes_) * moments + 1, 0);
  for (const Arc& arc : arcs) {
    ++next[row(arc) + 1];
    longest = std::max(longest, arc.later);
  }
  for (std::size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
  for (std::size_t node = 0; node < node_table_.size(); ++node) {
    std::copy_n(next.begin() + static_cast<std::ptrdiff_t>(node * moments), moments + 1,
                node_table_[node].followers.begin());
  }
  follower_.resize(arcs.size());
  needs_.assign(index(longest) + 1, std::vector<int>(index(nodes_), 0));
  for (const Arc& arc : arcs) {
    const std::int64_t to = arc.to + static_cast<std::int64_t>(arc.later) * nodes_;
    follower_[index(next[row(arc)]++)] = static_cast<int>(std::min<std::int64_t>(to, total_));
    for (std::size_t i = index(arc.later); i < needs_.size(); ++i) ++needs_[i][index(arc.to)];
  }
  for (std::size_t node = 0; node < precedence_.never.size(); ++node) {
    for (auto& needs : needs_) needs[node] += precedence_.never[node];
  }
}

/// A stop that begins when another one ends continues it.
void Engine::prepare_stops(const std::vector<Stop>& stops) {
  for (const Stop& stop : stops) {
    if (stop.device < 0 || stop.device >= program_.devices) {
      fail("simulate: device ", stop.device, " cannot stop; the program has ", program_.devices);
    }
    stops_.push_back({stop.at.count(), stop.device, 1});
    if (stop.time) stops_.push_back({add(stop.at.count(), stop.time->count()), stop.device, -1});
  }
  std::stable_sort(stops_.begin(), stops_.end(), [](const StopEvent& a, const StopEvent& b) {
    return a.time != b.time ? a.time < b.time : a.change > b.change;
  });
}

}  // namespace stagecraft::events
