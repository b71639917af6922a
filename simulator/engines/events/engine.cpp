// How the engine works. A node counts the arcs it still waits for; when none is left it starts, at
// once. What takes time is put into a queue; what comes out of it ends, and its followers count
// down:
//
//   queue ──▶  end of F0.1  ──▶  B0.1: 1 to go │ SF0.1: 0 to go, starts  ──▶  its end into the
//   queue
//
// Shared links and memory are looked at when all that happens at one instant has happened, so that
// nothing depends on the order in which it was found.

#include "simulator/engines/events/engine.hpp"

#include <algorithm>

namespace stagecraft::events {

void Engine::reset(Time now) {
  now_ = now;
  queue_.reset(now);
  ended_ = 0;
  unmet_.clear();
  for (int i = 0; i * places_.nodes < total_; ++i) {
    const auto& needs = needs_[std::min(index(i), needs_.size() - 1)];
    unmet_.insert(unmet_.end(), needs.begin(), needs.end());
  }
  span_.assign(index(total_), {});
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
    for (std::size_t device = 0; device < program_.reserve.size(); ++device) {
      devices_[device].memory += program_.reserve[device];
    }
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

inline bool Engine::take_event_of_now() {
  const std::optional<Event> event = queue_.take();
  if (event) take(*event);
  return event.has_value();
}

/// To the next instant at which something happens; false if there is none.
bool Engine::advance() {
  if (ended_ == index(total_)) return false;
  const std::optional<Time> next = queue_.next();
  const StopEvent* stop = stops_.next();
  const bool stops = stop != nullptr && (!next || stop->time <= *next);
  if (!stops && !next) return false;
  now_ = stops ? stop->time : *next;
  queue_.move_to(now_);
  if (stops) apply_stops();
  return true;
}

void Engine::settle_instant() {
  if (traffic_.changed()) {
    for (const Traffic::Due& due : traffic_.share(now_)) queue_.push({due.time, due.flow, true});
  }
  if (limited_) serve_memory();
}

/// Events that have been overtaken by a change of speed or rate mean nothing.
inline void Engine::take(const Event& event) {
  const int slot = slot_of(event.id);
  const Kind kind = at(slot).kind;
  if (event.sent) {
    if (at(slot).routed) {
      if (traffic_.due(event.id) != now_) return;
      traffic_.end(event.id);
    }
    return kind == Kind::collective ? finish(event.id, slot) : sent(event.id, slot);
  }
  if (flexible_ && kind == Kind::compute) {
    const Device& device = devices_[index(holdings_[index(slot)].device)];
    if (device.running != event.id || device.due != now_) return;
  }
  finish(event.id, slot);
}

// --- Nodes go on --------------------------------------------------------------------------------

inline void Engine::reach(int id, int slot, Moment moment) {
  const auto row = static_cast<std::size_t>(moment);
  const int first = at(slot).followers[row];
  const int end = moment == Moment::end ? at(slot + 1).followers[0] : at(slot).followers[row + 1];
  for (int i = first; i < end; ++i) {
    const int follower = follower_[index(i)] + (id - slot);
    if (follower < total_ && --unmet_[index(follower)] == 0) ready_.push_back(follower);
  }
}

inline void Engine::begin(int id) {
  const int slot = slot_of(id);
  if ((flexible_ || limited_) && held_back(id, slot)) return;
  enter(id, slot);
}

void Engine::enter(int id, int slot) {
  const Slot& self = at(slot);
  span_[index(id)].start = now_;
  if (limited_ || flexible_) enter_device(slot);
  reach(id, slot, Moment::start);
  switch (self.kind) {
    case Kind::compute: return compute(id, self);
    case Kind::send: return send(id, self);
    case Kind::receive: return receive(id, slot);
    case Kind::collective: return collective(id, self);
    case Kind::point: return finish(id, slot);
  }
}

inline void Engine::compute(int id, const Slot& self) {
  if (flexible_) {
    Device& device = devices_[index(holdings_[index(slot_of(id))].device)];
    device.running = id;
    device.left = static_cast<Wide>(self.duration) * 1000;
    device.since = now_;
    device.due = unknown;
    return change_speed(device);
  }
  if (self.duration == 0) return finish(id, slot_of(id));
  queue_.push({add(now_, self.duration), id, false});
}

inline void Engine::send(int id, const Slot& self) {
  if (self.routed) {
    const std::size_t channel = index(self.table);
    return traffic_.begin(id, named(id), *timing_.channel_route[channel],
                          timing_.channel_bytes[channel], now_);
  }
  if (self.duration == 0) return sent(id, slot_of(id));
  queue_.push({add(now_, self.duration), id, true});
}

inline void Engine::sent(int id, int slot) {
  reach(id, slot, Moment::sent);
  const Time latency = timing_.latency[index(at(slot).table)];
  if (latency == 0) return finish(id, slot);
  queue_.push({add(now_, latency), id, false});
}

/// A receive ends with its send; later only if it has started later.
inline void Engine::receive(int id, int slot) {
  const int send = at(slot).partner;
  if (send == nobody) return finish(id, slot);
  if (span_[index(id - slot + send)].end != unknown) finish_receive(id, slot);
}

void Engine::finish_receive(int id, int slot) {
  const Span& send = span_[index(id - slot + at(slot).partner)];
  const Time end = add(span_[index(id)].start, send.end - send.start);
  if (end == now_) return finish(id, slot);
  queue_.push({end, id, false});
}

inline void Engine::collective(int id, const Slot& self) {
  if (self.routed) {
    const std::size_t group = index(self.table);
    return traffic_.begin(id, named(id), *timing_.group_route[group], timing_.group_bytes[group],
                          now_);
  }
  if (self.duration == 0) return finish(id, slot_of(id));
  queue_.push({add(now_, self.duration), id, false});
}

void Engine::finish(int id, int slot) {
  span_[index(id)].end = now_;
  latest_ = std::max(latest_, now_);
  ++ended_;
  if (limited_ || flexible_) leave_device(slot);
  reach(id, slot, Moment::end);
  const Slot& self = at(slot);
  if (self.kind != Kind::send || self.partner == nobody) return;
  const int receive = id - slot + self.partner;
  if (span_[index(receive)].start != unknown) finish_receive(receive, self.partner);
}

}  // namespace stagecraft::events
