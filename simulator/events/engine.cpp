// How the engine works. A node counts the arcs it still waits for; when none is left it starts, at
// once. What takes time is put on a heap; what comes off it ends, and its followers count down:
//
//   heap  ──▶  end of F0.1  ──▶  B0.1: 1 to go │ SF0.1: 0 to go, starts  ──▶  its end onto the heap
//
// Shared links and memory are looked at when all that happens at one instant has happened, so that
// nothing depends on the order in which it was found.

#include "simulator/events/engine.hpp"

#include <algorithm>

namespace stagecraft::events {

namespace {

/// The first of all in the heap.
constexpr auto later = [](const auto& a, const auto& b) { return a.time > b.time; };

}  // namespace

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
  for (int id = total_; id-- > 0;) {
    if (unmet_[index(id)] > 0) continue;
    if (is_node(node_of(id))) {
      ready_.push_back(id);
    } else {
      ++ended_;  // its leader stands for it
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

void Engine::push(Time time, int id, bool sent) {
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
inline void Engine::take(const Event& event) {
  const int node = node_of(event.id);
  const Kind kind = at(node).kind;
  if (event.sent) {
    if (at(node).route != nullptr) {
      if (traffic_.due(event.id) != now_) return;
      traffic_.end(event.id);
    }
    return kind == Kind::collective ? finish(event.id, node) : sent(event.id, node);
  }
  if (flexible_ && kind == Kind::compute) {
    const Device& device = devices_[index(at(node).device)];
    if (device.running != event.id || device.due != now_) return;
  }
  finish(event.id, node);
}

// --- Nodes go on --------------------------------------------------------------------------------

inline void Engine::reach(int id, int node, Moment moment) {
  const auto row = static_cast<std::size_t>(moment);
  const auto& followers = at(node).followers;
  for (int i = followers[row]; i < followers[row + 1]; ++i) {
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
  if (limited_ || flexible_) enter_device(node);
  reach(id, node, Moment::start);
  switch (at(node).kind) {
    case Kind::compute: return compute(id, node);
    case Kind::send: return send(id, node);
    case Kind::receive: return receive(id, node);
    case Kind::collective: return collective(id, node);
    case Kind::point: return finish(id, node);
  }
}

inline void Engine::compute(int id, int node) {
  const Time duration = at(node).duration;
  if (flexible_) {
    Device& device = devices_[index(at(node).device)];
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
  const Node& self = at(node);
  if (self.route != nullptr) return traffic_.begin(id, *self.route, self.bytes, now_);
  if (self.duration == 0) return sent(id, node);
  push(add(now_, self.duration), id, true);
}

inline void Engine::sent(int id, int node) {
  reach(id, node, Moment::sent);
  if (at(node).latency == 0) return finish(id, node);
  push(add(now_, at(node).latency), id, false);
}

/// A receive ends with its send; later only if it has started later.
inline void Engine::receive(int id, int node) {
  const int send = at(node).partner;
  if (send == nobody) return finish(id, node);
  if (end_[index(id - node + send)] != unknown) finish_receive(id, node);
}

void Engine::finish_receive(int id, int node) {
  const std::size_t send = index(id - node + at(node).partner);
  const Time end = add(start_[index(id)], end_[send] - start_[send]);
  if (end == now_) return finish(id, node);
  push(end, id, false);
}

inline void Engine::collective(int id, int node) {
  const Node& self = at(node);
  if (self.route != nullptr) return traffic_.begin(id, *self.route, self.bytes, now_);
  if (self.duration == 0) return finish(id, node);
  push(add(now_, self.duration), id, false);
}

void Engine::finish(int id, int node) {
  end_[index(id)] = now_;
  latest_ = std::max(latest_, now_);
  ++ended_;
  if (limited_ || flexible_) leave_device(node);
  reach(id, node, Moment::end);
  const Node& self = at(node);
  if (self.kind != Kind::send || self.partner == nobody) return;
  const int receive = id - node + self.partner;
  if (start_[index(receive)] != unknown) finish_receive(receive, self.partner);
}

}  // namespace stagecraft::events
