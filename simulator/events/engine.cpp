// How the engine works. A node counts the arcs it still waits for; when none is left it starts, at
// once. What takes time is put on a heap; what comes off it ends, and its followers count down:
//
//   heap  ──▶  end of F0.1  ──▶  B0.1: 1 to go │ SF0.1: 0 to go, starts  ──▶  its end onto the heap
//
// Shared links and memory are looked at when all that happens at one instant has happened, so that
// nothing depends on the order in which it was found.

#include "simulator/events/engine.hpp"

#include <algorithm>

#include "profiles/error.hpp"

namespace stagecraft::events {

namespace {

Time add(Time a, Time b) {
  Time sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) fail("simulate: times exceed 292 years");
  return sum;
}

/// The first of all in the heap.
constexpr auto later = [](const auto& a, const auto& b) { return a.time > b.time; };

}  // namespace

Engine::Engine(const Precedence& precedence, const Costs& costs, const Environment& environment,
               int together)
    : precedence_(precedence),
      program_(precedence.program),
      environment_(environment),
      timing_(precedence, costs, environment),
      nodes_(precedence.nodes),
      limited_(!environment.memory_limits.empty()),
      flexible_(!environment.stops.empty() ||
                environment.slow_down != std::array<int, lanes.size()>{}),
      traffic_(environment.network),
      memory_time_(index(program_.devices), 0) {
  if (__builtin_mul_overflow(nodes_, together, &total_)) fail("simulate: too many iterations");
  prepare_nodes();
  prepare_followers();
  prepare_stops(environment.stops);
}

void Engine::prepare_nodes() {
  for (int node = 0; node < nodes_; ++node) {
    const bool point = precedence_.is_point(node);
    node_device_.push_back(point ? 0 : precedence_.device_of(node));
    kind_.push_back(Kind::point);
    if (point) continue;
    switch (precedence_.work(node).lane) {
      case Lane::compute: kind_.back() = Kind::compute; break;
      case Lane::send: kind_.back() = Kind::send; break;
      case Lane::receive: kind_.back() = Kind::receive; break;
      case Lane::collective: kind_.back() = Kind::collective; break;
    }
  }
}

/// By node and moment, in one table; and how many of its arcs a node of each iteration waits for.
void Engine::prepare_followers() {
  const std::vector<Arc>& arcs = precedence_.arcs;
  const auto row = [](const Arc& arc) {
    return index(arc.from) * moments + static_cast<std::size_t>(arc.moment);
  };
  int longest = 0;
  first_.assign(index(nodes_) * moments + 1, 0);
  for (const Arc& arc : arcs) {
    ++first_[row(arc) + 1];
    longest = std::max(longest, arc.later);
  }
  for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  std::vector<int> next(first_.begin(), first_.end() - 1);
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

void Engine::reset(Time now) {
  now_ = now;
  ended_ = 0;
  unmet_.clear();
  for (int i = 0; i * nodes_ < total_; ++i) {
    const auto& needs = needs_[std::min(index(i), needs_.size() - 1)];
    unmet_.insert(unmet_.end(), needs.begin(), needs.end());
  }
  start_.assign(index(total_), unknown);
  end_.assign(index(total_), unknown);
  const auto is_node = [&](int node) {
    return precedence_.is_point(node) || precedence_.leader[index(node)] == node;
  };
  for (int id = total_; id-- > 0;) {
    if (!is_node(node_of(id))) {
      ++ended_;
    } else if (unmet_[index(id)] == 0) {
      ready_.push_back(id);
    }
  }
  if (devices_.empty()) {
    devices_.resize(index(program_.devices));
    for (const int i : program_.resident) {
      const Buffer& buffer = program_.buffers[index(i)];
      devices_[index(buffer.device)].memory += buffer.bytes;
    }
  }
}

// --- Time goes on -------------------------------------------------------------------------------

bool Engine::run(Time now) {
  reset(now);
  apply_stops();
  do {
    do {
      while (!ready_.empty()) {
        const int id = ready_.back();
        ready_.pop_back();
        begin(id);
      }
    } while (take_event_of_now());
    settle_instant();
  } while (!ready_.empty() || advance());
  return ended_ == index(total_);
}

inline void Engine::push(Time time, int id, bool sent) {
  heap_.push_back({time, id, sent});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

inline bool Engine::take_event_of_now() {
  if (heap_.empty() || heap_.front().time != now_) return false;
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const Event event = heap_.back();
  heap_.pop_back();
  take(event);
  return true;
}

/// To the next instant at which something happens; false if there is none.
bool Engine::advance() {
  if (ended_ == index(total_)) return false;
  if (next_stop_ < stops_.size() &&
      (heap_.empty() || stops_[next_stop_].time <= heap_.front().time)) {
    now_ = stops_[next_stop_].time;
    apply_stops();
    return true;
  }
  if (heap_.empty()) return false;
  now_ = heap_.front().time;
  return true;
}

void Engine::settle_instant() {
  if (traffic_.changed()) {
    for (const Traffic::Due& due : traffic_.share(now_)) push(due.time, due.flow, true);
  }
  if (limited_) serve_memory();
}

/// Events that have been overtaken by a change of speed or rate mean nothing.
void Engine::take(const Event& event) {
  const int node = node_of(event.id);
  if (event.sent) {
    const bool collective = kind_[index(node)] == Kind::collective;
    const Work& work = precedence_.work(node);
    if (collective || timing_.channel_route[index(*work.channel)] != nullptr) {
      if (traffic_.due(event.id) != now_) return;
      traffic_.end(event.id);
    }
    return collective ? finish(event.id, node) : sent(event.id, node);
  }
  if (flexible_ && kind_[index(node)] == Kind::compute) {
    const Device& device = device_of(node);
    if (device.running != event.id || device.due != now_) return;
  }
  finish(event.id, node);
}

// --- Nodes go on --------------------------------------------------------------------------------

inline void Engine::reach(int id, Moment moment) {
  const int node = node_of(id);
  const std::size_t row = index(node) * moments + static_cast<std::size_t>(moment);
  for (int i = first_[row]; i < first_[row + 1]; ++i) {
    const int follower = follower_[index(i)] + (id - node);
    if (follower < total_ && --unmet_[index(follower)] == 0) ready_.push_back(follower);
  }
}

inline void Engine::begin(int id) {
  const int node = node_of(id);
  if ((flexible_ || limited_) && held_back(id, node)) return;
  enter(id, node);
}

void Engine::enter(int id, int node) {
  start_[index(id)] = now_;
  if (limited_ || flexible_) {
    for (const int work : members_of(node)) {
      Device& device = device_of(work);
      device.memory += bytes_of(precedence_.work(work).allocates, program_.allocations);
      count_active(work, 1);
    }
  }
  reach(id, Moment::start);
  switch (kind_[index(node)]) {
    case Kind::compute: return compute(id, node);
    case Kind::send: return send(id, node);
    case Kind::receive: return receive(id, node);
    case Kind::collective: return collective(id, node);
    case Kind::point: return finish(id, node);
  }
}

inline void Engine::compute(int id, int node) {
  const Time duration = timing_.duration[index(node)];
  if (flexible_) {
    Device& device = device_of(node);
    device.running = id;
    device.left = static_cast<Wide>(duration) * 1000;
    device.since = now_;
    device.due = unknown;
    return change_speed(device);
  }
  if (duration == 0) return finish(id, node);
  push(add(now_, duration), id, false);
}

inline void Engine::send(int id, int node) {
  const std::size_t channel = index(*precedence_.work(node).channel);
  if (const Route* route = timing_.channel_route[channel]) {
    return traffic_.begin(id, *route, timing_.channel_bytes[channel], now_);
  }
  const Time occupancy = timing_.occupancy[channel];
  if (occupancy == 0) return sent(id, node);
  push(add(now_, occupancy), id, true);
}

inline void Engine::sent(int id, int node) {
  reach(id, Moment::sent);
  const Time latency = timing_.latency[index(*precedence_.work(node).channel)];
  if (latency == 0) return finish(id, node);
  push(add(now_, latency), id, false);
}

/// A receive ends with its send; later only if it has started later.
inline void Engine::receive(int id, int node) {
  const int send = precedence_.send_of[index(node)];
  if (send == nobody) return finish(id, node);
  if (end_[index(id - node + send)] != unknown) finish_receive(id);
}

void Engine::finish_receive(int id) {
  const int node = node_of(id);
  const std::size_t send = index(id - node + precedence_.send_of[index(node)]);
  const Time end = add(start_[index(id)], end_[send] - start_[send]);
  if (end == now_) return finish(id, node);
  push(end, id, false);
}

inline void Engine::collective(int id, int node) {
  const std::size_t group = index(*precedence_.work(node).group);
  if (const Route* route = timing_.group_route[group]) {
    return traffic_.begin(id, *route, timing_.group_bytes[group], now_);
  }
  const Time duration = timing_.duration[index(node)];
  if (duration == 0) return finish(id, node);
  push(add(now_, duration), id, false);
}

void Engine::finish(int id, int node) {
  end_[index(id)] = now_;
  latest_ = std::max(latest_, now_);
  ++ended_;
  if (limited_ || flexible_) {
    if (kind_[index(node)] == Kind::compute) device_of(node).running = nobody;
    for (const int work : members_of(node)) {
      Device& device = device_of(work);
      device.memory -= bytes_of(precedence_.work(work).frees, program_.releases);
      count_active(work, -1);
    }
  }
  reach(id, Moment::end);
  if (kind_[index(node)] != Kind::send) return;
  const int receive = precedence_.receive_of[index(node)];
  if (receive == nobody) return;
  const int receive_id = id - node + receive;
  if (start_[index(receive_id)] != unknown) finish_receive(receive_id);
}

}  // namespace stagecraft::events
