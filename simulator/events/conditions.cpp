// What bears on works beside their order: slowed and stopped devices, and memory.

#include <algorithm>

#include "profiles/error.hpp"
#include "simulator/events/engine.hpp"

namespace stagecraft::events {

/// The works of a node; none of a point.
std::span<const int> Engine::members_of(const int& node) const {
  if (precedence_.is_point(node)) return {};
  const std::vector<int>& members = precedence_.members[index(node)];
  return members.empty() ? std::span(&node, 1) : std::span(members);
}

bool Engine::held_back(int id, int node) {
  const std::span<const int> works = members_of(node);
  if (kind_[index(node)] != Kind::receive) {
    for (const int work : works) {
      if (device_of(work).stops == 0) continue;
      device_of(work).held.push_back(id);
      return true;
    }
  }
  const auto is_forward = [&](int work) {
    return precedence_.work(work).instruction.op == Op::forward;
  };
  if (!limited_ || std::none_of(works.begin(), works.end(), is_forward)) return false;
  device_of(node).wants_memory = id;
  device_of(node).wants_since = now_;
  return true;
}

// --- Speed --------------------------------------------------------------------------------------

void Engine::count_active(int work, int change) {
  Device& device = device_of(work);
  int& active = device.active[static_cast<std::size_t>(precedence_.work(work).lane)];
  active += change;
  if (flexible_) change_speed(device);
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
  push(due, device.running, false);
}

void Engine::apply_stops() {
  for (; next_stop_ < stops_.size() && stops_[next_stop_].time <= now_; ++next_stop_) {
    stop_or_go(stops_[next_stop_]);
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

Bytes Engine::needs_memory(int node) const {
  Bytes bytes = 0;
  for (const int work : members_of(node)) {
    bytes += bytes_of(precedence_.work(work).allocates, program_.allocations);
  }
  return bytes;
}

void Engine::serve_memory() {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    Device& device = devices_[i];
    const int id = device.wants_memory;
    if (id == nobody || device.stops > 0) continue;
    const int node = node_of(id);
    if (device.memory + needs_memory(node) > environment_.memory_limits[i]) continue;
    memory_time_[i] += now_ - device.wants_since;
    device.wants_memory = nobody;
    enter(id, node);
  }
}

}  // namespace stagecraft::events
