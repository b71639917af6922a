// What bears on works beside their order: slowed and stopped devices, and memory.

#include <algorithm>
#include <utility>

#include "profiles/error.hpp"
#include "simulator/engines/events/engine.hpp"

namespace stagecraft::events {

/// The works of a node; none of a point.
std::span<const int> Engine::members_of(const int& node) const {
  if (precedence_.is_point(node)) return {};
  const std::vector<int>& members = precedence_.members[index(node)];
  return members.empty() ? std::span(&node, 1) : std::span(members);
}

/// The members of a collective on other devices than its first: all but that one.
std::span<const int> Engine::elsewhere(int slot) const {
  if (at(slot).kind != Kind::collective) return {};
  return std::span(precedence_.members[index(node_of(slot))]).subspan(1);
}

bool Engine::held_back(int id, int slot) {
  if (flexible_ && at(slot).kind != Kind::receive) {
    for (const int work : members_of(places_.node_of[index(slot)])) {
      if (device_of(work).stops == 0) continue;
      device_of(work).held.push_back(id);
      return true;
    }
  }
  if (!limited_ || !at(slot).forward) return false;
  const int device = holdings_[index(slot)].device;
  devices_[index(device)].wants_memory = id;
  devices_[index(device)].wants_since = now_;
  wanting_.push_back(device);
  return true;
}

// --- Speed --------------------------------------------------------------------------------------

void Engine::enter_device(int slot) {
  if (at(slot).kind == Kind::point) return;
  const Holding& holding = holdings_[index(slot)];
  devices_[index(holding.device)].memory += holding.allocates;
  for (const int work : elsewhere(slot)) {
    device_of(work).memory += bytes_of(precedence_.work(work).allocates, program_.allocations);
  }
  if (flexible_) count_active(slot, 1);
}

void Engine::leave_device(int slot) {
  if (at(slot).kind == Kind::point) return;
  const Holding& holding = holdings_[index(slot)];
  Device& device = devices_[index(holding.device)];
  device.memory -= holding.frees;
  for (const int work : elsewhere(slot)) {
    device_of(work).memory -= bytes_of(precedence_.work(work).frees, program_.releases);
  }
  if (at(slot).kind == Kind::compute) device.running = nobody;
  if (flexible_) count_active(slot, -1);
}

void Engine::count_active(int slot, int change) {
  for (const int work : members_of(places_.node_of[index(slot)])) {
    Device& device = device_of(work);
    device.active[static_cast<std::size_t>(precedence_.work(work).lane)] += change;
    change_speed(device);
  }
}

/// What the running compute has left takes another time from now on.
void Engine::change_speed(Device& device) {
  int speed = 1000;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    if (device.active[lane] > 0) speed -= environment_.slow_down[lane];
  }
  if (device.stops > 0) speed = 0;
  device.left -= static_cast<Wide>(device.speed) * (now_ - device.since);
  device.left = std::max<Wide>(device.left, 0);
  device.since = now_;
  device.speed = speed;
  if (device.running == nobody) return;
  if (speed == 0 && device.left > 0) {
    device.due = unknown;
    return;
  }
  const Wide wide_due = device.left == 0 ? now_ : now_ + (device.left + speed - 1) / speed;
  if (wide_due > INT64_MAX) fail("simulate: times exceed 292 years");
  const auto due = static_cast<Time>(wide_due);
  if (due == device.due) return;
  device.due = due;
  queue_.push({due, device.running, false});
}

void Engine::apply_stops() {
  for (; stops_.next() != nullptr && stops_.next()->time <= now_; ++stops_.come) {
    stop_or_go(*stops_.next());
  }
}

void Engine::stop_or_go(const StopEvent& event) {
  Device& device = devices_[index(event.device)];
  device.stops += event.change;
  change_speed(device);
  if (device.stops > 0) return;
  ready_.insert(ready_.end(), device.held.begin(), device.held.end());
  device.held.clear();
}

// --- Memory -------------------------------------------------------------------------------------

Bytes Engine::bytes_of(IndexRange range, const std::vector<int>& table) const {
  Bytes bytes = 0;
  for (int i = range.first; i < range.end; ++i) {
    bytes += program_.buffers[index(table[index(i)])].bytes;
  }
  return bytes;
}

/// Forwards start in order of their devices, as far as there is memory.
void Engine::serve_memory() {
  std::sort(wanting_.begin(), wanting_.end());
  std::vector<int> still;
  for (const int i : std::exchange(wanting_, {})) {
    Device& device = devices_[index(i)];
    const int id = device.wants_memory;
    const int slot = slot_of(id);
    if (device.stops > 0 ||
        device.memory + holdings_[index(slot)].allocates > environment_.memory_limits[index(i)]) {
      still.push_back(i);
      continue;
    }
    memory_time_[index(i)] += now_ - device.wants_since;
    device.wants_memory = nobody;
    enter(id, slot);
  }
  wanting_.insert(wanting_.end(), still.begin(), still.end());
}

}  // namespace stagecraft::events
