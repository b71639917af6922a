// How the clock works: no event queue, since the order of everything is fixed.
//
// Each device has a cursor into its issue order and goes forward as far as it can, computing when
// each instruction starts and ends from what it waits for. At the first wait whose end is not known
// yet it goes to sleep, and that work wakes it. So everything is looked at once: the cost is O(work
// + waits), however many devices there are.
//
// Lowered programs are numbered in an order in which all that something needs comes before it. So
// the clock first goes through the work by number, as it lies in memory; what this leaves, in
// programs of other origin, is done device by device:
//
//   device 0   F0.0 SF0.0 F0.1 SF0.1 RB0.0 ···        asleep: the start of SB1.0 is not known
//   device 1   RF1.0 F1.0 RF1.1 B1.0 SB1.0 ···        reaches SB1.0, wakes device 0
//
// The sequence of these visits is not the sequence of time: a device may be computed far ahead of
// the others. Times do not depend on it, as each is the maximum of times that are final:
//
//   compute      max(waits, end of the device's compute before it); of a fused pair, both halves'
//   send         max(waits, channel free); it occupies the channel, and arrives a latency later
//   receive      as its send (later only if it waits for something else, too)
//   collective   max over all members of (waits, end of the member's collective before it)

#include "simulator/engines/clock.hpp"

#include <algorithm>
#include <array>

#include "profiles/abandonment.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/engines/exact_times.hpp"
#include "simulator/values/cost_of.hpp"

namespace stagecraft {

namespace {

using Time = std::int64_t;

Time checked(Duration duration, std::string_view what, std::size_t which) {
  if (duration < Duration{0}) {
    fail("simulate: ", what, " ", which, " costs ", duration.count(), " ns; expected 0 or more");
  }
  return duration.count();
}

template <class Table, class Parallel>
void require_parallel(const Table& costs, const Parallel& table, std::string_view what) {
  if (costs.size() == table.size()) return;
  fail("simulate: costs list ", costs.size(), " ", what, "; the program has ", table.size());
}

constexpr std::size_t operations = static_cast<std::size_t>(Op::update) + 1;

}  // namespace

Clock::FlatCosts Clock::flatten(const Program& program, const Costs& costs) {
  require_parallel(costs.chunks, program.chunks, "chunks");
  require_parallel(costs.channels, program.channels, "channels");
  require_parallel(costs.groups, program.groups, "groups");
  FlatCosts flat;
  for (std::size_t i = 0; i < costs.chunks.size(); ++i) {
    for (std::size_t op = 0; op < operations; ++op) {
      const Duration time = cost_of(costs.chunks[i], static_cast<Op>(op));
      flat.compute.push_back(checked(time, "chunk", i));
    }
    const std::optional<Duration> fused = costs.chunks[i].fused;
    flat.fused.push_back(fused ? checked(*fused, "fused pair of chunk", i) : unknown);
  }
  for (std::size_t i = 0; i < costs.channels.size(); ++i) {
    flat.latency.push_back(checked(costs.channels[i].latency, "channel", i));
    flat.occupancy.push_back(checked(costs.channels[i].occupancy, "channel", i));
  }
  for (std::size_t i = 0; i < costs.groups.size(); ++i) {
    flat.group.push_back(checked(costs.groups[i], "group", i));
  }
  return flat;
}

// --- One iteration
// --------------------------------------------------------------------------------

Clock::Clock(const Program& program, const Costs& costs)
    : program_(program),
      costs_(flatten(program, costs)),
      start_(program.work.size(), unknown),
      end_(program.work.size(), unknown),
      sleepers_(program.work.size(), nobody),
      devices_(index(program.devices)),
      channel_free_(program.channels.size(), 0),
      meetings_(program.groups.size()) {}

Duration Clock::start(int work) const {
  return Duration{start_[index(work)]};
}
Duration Clock::end(int work) const {
  return Duration{end_[index(work)]};
}

inline const Work& Clock::work(int i) const {
  return program_.work[index(i)];
}
inline int Clock::device_of(int i) const {
  return program_.chunks[index(work(i).chunk)].device;
}
inline Clock::Device& Clock::state(int device) {
  return devices_[index(device)];
}
inline bool Clock::settled(int i) const {
  return end_[index(i)] != unknown;
}

/// What this iteration's works wait for in the one before.
void Clock::carry() {
  if (program_.carried.empty()) return;
  carried_.assign(end_.size(), 0);
  for (const CarriedWait& wait : program_.carried) {
    carried_[index(wait.work)] = std::max(carried_[index(wait.work)], end_[index(wait.on)]);
  }
}

inline Clock::Time Clock::earliest(int i) const {
  return carried_.empty() ? 0 : carried_[index(i)];
}

void Clock::run() {
  carry();
  std::fill(end_.begin(), end_.end(), unknown);
  for (Meeting& meeting : meetings_) meeting.arrived.clear();
  for (Device& device : devices_) {
    device.cursor = 0;
    device.last_collective = nobody;
  }
  sweep();
  for (int device = program_.devices; device-- > 0;) awake_.push_back(device);
  while (!awake_.empty()) {
    check_abandoned();
    const int device = awake_.back();
    awake_.pop_back();
    advance(device);
  }
  for (int device = 0; device < program_.devices; ++device) {
    const std::vector<int>& order = program_.order[index(device)];
    if (state(device).cursor < order.size()) fail_stuck(order[state(device).cursor]);
  }
  for (const Meeting& meeting : meetings_) {
    if (!meeting.arrived.empty()) fail_stuck(meeting.arrived.front());
  }
}

void Clock::barrier() {
  Time latest = 0;
  for (const Time end : end_) latest = std::max(latest, end);
  for (Device& device : devices_) device.compute_free = device.collective_free = latest;
  std::fill(channel_free_.begin(), channel_free_.end(), latest);
}

void Clock::sweep() {
  for (int i = 0; i < static_cast<int>(program_.work.size()); ++i) {
    const int device = device_of(i);
    const std::vector<int>& order = program_.order[index(device)];
    Device& self = state(device);
    const bool is_next = self.cursor < order.size() && order[self.cursor] == i;
    if (is_next && attempt(i, self) == nobody) ++self.cursor;
  }
}

void Clock::advance(int device) {
  const std::vector<int>& order = program_.order[index(device)];
  Device& self = state(device);
  for (; self.cursor < order.size(); ++self.cursor) {
    const int blocker = attempt(order[self.cursor], self);
    if (blocker == nobody) continue;
    self.next_sleeper = sleepers_[index(blocker)];
    sleepers_[index(blocker)] = device;
    return;
  }
}

Clock::Readiness Clock::readiness(const Work& item, Time earliest) const {
  Time ready = earliest;
  for (int w = item.waits.first; w < item.waits.end; ++w) {
    const int on = program_.waits[index(w)];
    if (!settled(on)) return {0, on};
    ready = std::max(ready, end_[index(on)]);
  }
  return {ready, nobody};
}

int Clock::attempt(int i, Device& self) {
  const Work& item = work(i);
  switch (item.lane) {
    case Lane::compute: return compute(i, item, self);
    case Lane::send: return send(i, item);
    case Lane::receive: return receive(i, item);
    case Lane::collective: return collective(i, item, self);
  }
  return nobody;
}

Clock::Time Clock::cost(const Work& item) const {
  return costs_
      .compute[index(item.chunk) * operations + static_cast<std::size_t>(item.instruction.op)];
}

int Clock::compute(int i, const Work& item, Device& self) {
  if (item.fused_with) return compute_pair(i, item, self);
  const auto [ready, blocker] = readiness(item, std::max(self.compute_free, earliest(i)));
  if (blocker != nobody) return blocker;
  self.compute_free = exact_sum(ready, cost(item));
  settle(i, ready, self.compute_free);
  return nobody;
}

/// The half that comes first settles both.
int Clock::compute_pair(int i, const Work& item, Device& self) {
  if (settled(i)) return nobody;
  const Work& other = work(*item.fused_with);
  const Time first = std::max({self.compute_free, earliest(i), earliest(*item.fused_with)});
  const auto [own_ready, own_blocker] = readiness(item, first);
  if (own_blocker != nobody) return own_blocker;
  const auto [ready, blocker] = readiness(other, own_ready);
  if (blocker != nobody) return blocker;
  const int forward = item.instruction.op == Op::forward ? item.chunk : other.chunk;
  const Time together = costs_.fused[index(forward)];
  const Time end =
      exact_sum(ready, together == unknown ? exact_sum(cost(item), cost(other)) : together);
  self.compute_free = end;
  settle(i, ready, end);
  settle(*item.fused_with, ready, end);
  return nobody;
}

int Clock::send(int i, const Work& item) {
  const std::size_t channel = index(*item.channel);
  const auto [ready, blocker] = readiness(item, std::max(channel_free_[channel], earliest(i)));
  if (blocker != nobody) return blocker;
  channel_free_[channel] = exact_sum(ready, costs_.occupancy[channel]);
  settle(i, ready, exact_sum(channel_free_[channel], costs_.latency[channel]));
  return nobody;
}

int Clock::receive(int i, const Work& item) {
  Time ready = earliest(i);
  Time transfer = 0;
  for (int w = item.waits.first; w < item.waits.end; ++w) {
    const int on = program_.waits[index(w)];
    if (!settled(on)) return on;
    const bool own_send = work(on).channel == item.channel && is_send(work(on).instruction.op);
    if (own_send) transfer = end_[index(on)] - start_[index(on)];
    ready = std::max(ready, own_send ? start_[index(on)] : end_[index(on)]);
  }
  settle(i, ready, exact_sum(ready, transfer));
  return nobody;
}

int Clock::collective(int i, const Work& item, Device& self) {
  if (self.last_collective != nobody && !settled(self.last_collective)) {
    return self.last_collective;
  }
  const auto [ready, blocker] = readiness(item, std::max(self.collective_free, earliest(i)));
  if (blocker != nobody) return blocker;
  self.last_collective = i;
  const std::size_t group = index(*item.group);
  Meeting& meeting = meetings_[group];
  meeting.ready = meeting.arrived.empty() ? ready : std::max(meeting.ready, ready);
  meeting.arrived.push_back(i);
  if (meeting.arrived.size() == program_.groups[group].chunks.size()) {
    hold(meeting, costs_.group[group]);
  }
  return nobody;
}

/// All members are there.
void Clock::hold(Meeting& meeting, Time cost) {
  const Time end = exact_sum(meeting.ready, cost);
  for (const int member : meeting.arrived) {
    state(device_of(member)).collective_free = end;
    settle(member, meeting.ready, end);
  }
  meeting.arrived.clear();
}

void Clock::settle(int i, Time start, Time end) {
  start_[index(i)] = start;
  end_[index(i)] = end;
  for (int& sleeper = sleepers_[index(i)]; sleeper != nobody;) {
    awake_.push_back(sleeper);
    sleeper = state(sleeper).next_sleeper;
  }
}

// --- When nothing moves any more
// ------------------------------------------------------------------

std::optional<int> Clock::awaited(const Work& item) const {
  for (int w = item.waits.first; w < item.waits.end; ++w) {
    if (!settled(program_.waits[index(w)])) return program_.waits[index(w)];
  }
  return {};
}

/// Something it waits for; a member that has not come to its collective; or what stands before it
/// in its device's order. None if it stands in no order.
std::optional<Clock::Cause> Clock::cause(int i) {
  if (const auto on = awaited(work(i))) return Cause{*on, "waits for"};
  if (work(i).fused_with) {
    const auto on = awaited(work(*work(i).fused_with));
    if (on) return Cause{*on, "is fused with work that waits for"};
  }
  const Device& device = state(device_of(i));
  const std::vector<int>& order = program_.order[index(device_of(i))];
  if (device.last_collective == i) return missing_member(*work(i).group);
  if (device.cursor == order.size()) return {};
  const int head = order[device.cursor];
  return Cause{head == i ? device.last_collective : head, "comes after"};
}

std::optional<Clock::Cause> Clock::missing_member(int group) const {
  const std::vector<int>& arrived = meetings_[index(group)].arrived;
  for (int i = 0; i < static_cast<int>(program_.work.size()); ++i) {
    const bool came = std::find(arrived.begin(), arrived.end(), i) != arrived.end();
    if (work(i).group == group && !settled(i) && !came) return Cause{i, "waits for"};
  }
  return {};
}

std::string Clock::name(int i) const {
  return concat(to_string(work(i).instruction), " on device ", device_of(i));
}

/// From cause to cause, until one comes up again: that is the cycle.
void Clock::fail_stuck(int i) {
  std::vector<Cause> chain{{i, ""}};
  std::vector<char> seen(program_.work.size(), 0);
  while (seen[index(chain.back().work)] == 0) {
    seen[index(chain.back().work)] = 1;
    const std::optional<Cause> next = cause(chain.back().work);
    if (!next) fail_never(i, chain.back().work);
    chain.push_back(*next);
  }
  fail_cycle(chain);
}

void Clock::fail_never(int waiting, int never) const {
  throw Error(ErrorKind::check, concat("simulate: ", name(waiting),
                                       " waits for ever: ", name(never), " is never issued"));
}

/// The chain's last work is where the cycle closes; what comes before its first mention only
/// leads there.
void Clock::fail_cycle(const std::vector<Cause>& chain) const {
  std::string text;
  for (const Cause& link : chain) {
    const bool inside = !text.empty();
    if (inside) text += concat(", which ", link.how, " ");
    if (inside || link.work == chain.back().work) text += name(link.work);
  }
  throw Error(ErrorKind::check, "simulate: devices wait for each other: " + text);
}

}  // namespace stagecraft
