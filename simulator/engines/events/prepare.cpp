// A program made ready to run: its works as nodes, each with its costs and followers.

#include <algorithm>

#include "profiles/error.hpp"
#include "simulator/engines/events/engine.hpp"

namespace stagecraft::events {

Engine::Engine(const Precedence& precedence, const Costs& costs, const Environment& environment,
               int together)
    : precedence_(precedence),
      program_(precedence.program),
      environment_(environment),
      timing_(precedence, costs, environment),
      places_{precedence.nodes, {}, {}},
      limited_(!environment.memory_limits.empty()),
      flexible_(!environment.stops.empty() ||
                environment.slow_down != std::array<int, lanes.size()>{}),
      traffic_(environment.network),
      memory_time_(index(program_.devices), 0) {
  if (__builtin_mul_overflow(places_.nodes, together, &total_))
    fail("simulate: too many iterations");
  const ArcTable arcs(precedence);
  places_.node_of = likely_order(arcs, precedence, timing_, environment.network);
  places_.slot_of.resize(index(places_.nodes));
  for (int slot = 0; slot < places_.nodes; ++slot)
    places_.slot_of[index(places_.node_of[index(slot)])] = slot;
  prepare_slots();
  prepare_followers(arcs);
  prepare_stops(environment.stops);
}

void Engine::prepare_slots() {
  slots_.reserve(index(places_.nodes) + 1);
  for (const int node : places_.node_of) {
    slots_.push_back(precedence_.is_point(node) ? Slot{} : prepare_slot(node));
    if (!limited_ && !flexible_) continue;
    holdings_.push_back(precedence_.is_point(node) ? Holding{} : prepare_holding(node));
  }
  slots_.emplace_back();
}

Engine::Slot Engine::prepare_slot(int i) const {
  const Work& work = precedence_.work(i);
  const auto partner = [&](const std::vector<int>& table) {
    const int other = table[index(i)];
    return other == nobody ? nobody : places_.slot_of[index(other)];
  };
  Slot slot{.duration = timing_.duration[index(i)]};
  switch (work.lane) {
    case Lane::compute: slot.kind = Kind::compute; break;
    case Lane::send:
      slot.kind = Kind::send;
      slot.table = *work.channel;
      slot.duration = timing_.occupancy[index(slot.table)];
      slot.partner = partner(precedence_.receive_of);
      slot.routed = timing_.channel_route[index(slot.table)] != nullptr;
      break;
    case Lane::receive:
      slot.kind = Kind::receive;
      slot.partner = partner(precedence_.send_of);
      break;
    case Lane::collective:
      slot.kind = Kind::collective;
      slot.table = *work.group;
      slot.routed = timing_.group_route[index(slot.table)] != nullptr;
      break;
  }
  for (const int member : members_of(i)) {
    slot.forward |= precedence_.work(member).instruction.op == Op::forward;
  }
  return slot;
}

Engine::Holding Engine::prepare_holding(int i) const {
  Holding holding{.device = precedence_.device_of(i)};
  for (const int member : members_of(i)) {
    if (precedence_.device_of(member) != holding.device) continue;
    holding.allocates += bytes_of(precedence_.work(member).allocates, program_.allocations);
    holding.frees += bytes_of(precedence_.work(member).frees, program_.releases);
  }
  return holding;
}

/// By slot and moment, in one table; and how many of its arcs a node of each iteration waits for.
void Engine::prepare_followers(const ArcTable& arcs) {
  needs_.assign(index(arcs.longest) + 1, std::vector<int>(index(places_.nodes), 0));
  follower_.reserve(arcs.targets.size());
  for (int slot = 0; slot < places_.nodes; ++slot) {
    const int node = places_.node_of[index(slot)];
    for (int moment = 0; moment < moments; ++moment) {
      slots_[index(slot)].followers[index(moment)] = static_cast<int>(follower_.size());
      for (const ArcTable::Target& target : arcs.row(node, static_cast<Moment>(moment))) {
        const int to = places_.slot_of[index(target.to)];
        const std::int64_t id = to + static_cast<std::int64_t>(target.later) * places_.nodes;
        follower_.push_back(static_cast<int>(std::min<std::int64_t>(id, total_)));
        for (auto i = index(target.later); i < needs_.size(); ++i) ++needs_[i][index(to)];
      }
    }
    for (auto& needs : needs_) needs[index(slot)] += precedence_.never[index(node)];
  }
  slots_.back().followers.fill(static_cast<int>(follower_.size()));
}

/// A stop that begins when another one ends continues it.
void Engine::prepare_stops(const std::vector<Stop>& stops) {
  for (const Stop& stop : stops) {
    if (stop.device < 0 || stop.device >= program_.devices) {
      fail("simulate: device ", stop.device, " cannot stop; the program has ", program_.devices);
    }
    stops_.events.push_back({stop.at.count(), stop.device, 1});
    if (stop.time)
      stops_.events.push_back({add(stop.at.count(), stop.time->count()), stop.device, -1});
  }
  std::stable_sort(stops_.events.begin(), stops_.events.end(),
                   [](const StopEvent& a, const StopEvent& b) {
                     return a.time != b.time ? a.time < b.time : a.change > b.change;
                   });
}

}  // namespace stagecraft::events
