// How the clock works: no event queue, since the order of everything is fixed.
//
// Each device has a cursor into its issue order and goes forward as far as it can, computing when
// each instruction starts and ends from what it waits for. At the first wait whose end is not known
// yet it goes to sleep, and that work wakes it. So everything is looked at once: the cost is O(work
// + waits), however many devices there are.
//
//   device 0   F0.0 SF0.0 F0.1 SF0.1 RB0.0 ···        asleep: the start of SB1.0 is not known
//   device 1   RF1.0 F1.0 RF1.1 B1.0 SB1.0 ···        reaches SB1.0, wakes device 0
//
// The sequence of these visits is not the sequence of time: a device may be computed far ahead of
// the others. Times do not depend on it, as each is the maximum of times that are final:
//
//   compute      max(waits, end of the device's compute before it)
//   send         max(waits, channel free); it occupies the channel, and arrives a latency later
//   receive      as its send (later only if it waits for something else, too)
//   collective   max over all members of (waits, end of the member's collective before it)

#include "simulator/simulate.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

using Time = std::int64_t;  // nanoseconds
constexpr Time unknown = -1;

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

Time add(Time a, Time b) {
  Time sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) fail("simulate: times exceed 292 years");
  return sum;
}

// --- Costs, checked and flat --------------------------------------------------------------------

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

constexpr std::size_t ops = static_cast<std::size_t>(Op::update) + 1;

/// What compute takes, by op.
std::array<Duration, ops> by_op(const ChunkCosts& costs) {
  std::array<Duration, ops> table{};
  const auto set = [&](Op op, Duration duration) {
    table[static_cast<std::size_t>(op)] = duration;
  };
  set(Op::forward, costs.forward);
  set(Op::backward, costs.backward);
  set(Op::backward_input, costs.backward_input);
  set(Op::backward_weight, costs.backward_weight);
  set(Op::recompute, costs.recompute);
  set(Op::update, costs.update);
  return table;
}

struct FlatCosts {
  std::vector<Time> compute;    ///< [chunk × ops + op]
  std::vector<Time> latency;    ///< by channel
  std::vector<Time> occupancy;  ///< by channel
  std::vector<Time> group;
};

FlatCosts flatten(const Program& program, const Costs& costs) {
  require_parallel(costs.chunks, program.chunks, "chunks");
  require_parallel(costs.channels, program.channels, "channels");
  require_parallel(costs.groups, program.groups, "groups");
  FlatCosts flat;
  for (std::size_t i = 0; i < costs.chunks.size(); ++i) {
    for (const Duration time : by_op(costs.chunks[i])) {
      flat.compute.push_back(checked(time, "chunk", i));
    }
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

// --- The clock ----------------------------------------------------------------------------------

class Clock {
 public:
  Clock(const Program& program, const Costs& costs)
      : program_(program),
        costs_(flatten(program, costs)),
        start_(program.work.size(), unknown),
        end_(program.work.size(), unknown),
        sleepers_(program.work.size(), nobody),
        devices_(index(program.devices)),
        channel_free_(program.channels.size(), 0),
        meetings_(program.groups.size()) {}

  /// Puts one iteration on the clock; lanes go on where the iteration before has left them.
  void run() {
    std::fill(end_.begin(), end_.end(), unknown);
    for (Meeting& meeting : meetings_) meeting.arrived.clear();
    for (int device = program_.devices; device-- > 0;) {
      state(device).cursor = 0;
      state(device).last_collective = nobody;
      awake_.push_back(device);
    }
    while (!awake_.empty()) {
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

  /// Nothing starts before everything so far has ended.
  void barrier() {
    Time latest = 0;
    for (const Time end : end_) latest = std::max(latest, end);
    for (Device& device : devices_) device.compute_free = device.collective_free = latest;
    std::fill(channel_free_.begin(), channel_free_.end(), latest);
  }

  Duration start(int work) const { return Duration{start_[index(work)]}; }
  Duration end(int work) const { return Duration{end_[index(work)]}; }

 private:
  static constexpr int nobody = -1;

  struct Device {
    std::size_t cursor = 0;
    Time compute_free = 0;
    Time collective_free = 0;
    int last_collective = nobody;  ///< in this iteration; its end may not be known yet
    int next_sleeper = nobody;
  };

  /// A collective some of whose members have arrived.
  struct Meeting {
    std::vector<int> arrived;
    Time ready = 0;
  };

  Device& state(int device) { return devices_[index(device)]; }
  const Work& work(int i) const { return program_.work[index(i)]; }
  int device_of(int i) const { return program_.chunks[index(work(i).chunk)].device; }

  void advance(int device) {
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

  /// Sets the times of this work and returns nobody, or returns the work whose end must be known
  /// first.
  int attempt(int i, Device& self) {
    const Work& item = work(i);
    switch (item.lane) {
      case Lane::compute: return compute(i, item, self);
      case Lane::send: return send(i, item);
      case Lane::receive: return receive(i, item);
      case Lane::collective: return collective(i, item, self);
    }
    return nobody;
  }

  int compute(int i, const Work& item, Device& self) {
    Time ready = self.compute_free;
    for (int w = item.waits.first; w < item.waits.end; ++w) {
      const int on = program_.waits[index(w)];
      if (end_[index(on)] == unknown) return on;
      ready = std::max(ready, end_[index(on)]);
    }
    const std::size_t op = static_cast<std::size_t>(item.instruction.op);
    self.compute_free = add(ready, costs_.compute[index(item.chunk) * ops + op]);
    settle(i, ready, self.compute_free);
    return nobody;
  }

  int send(int i, const Work& item) {
    const std::size_t channel = index(*item.channel);
    Time ready = channel_free_[channel];
    for (int w = item.waits.first; w < item.waits.end; ++w) {
      const int on = program_.waits[index(w)];
      if (end_[index(on)] == unknown) return on;
      ready = std::max(ready, end_[index(on)]);
    }
    channel_free_[channel] = add(ready, costs_.occupancy[channel]);
    settle(i, ready, add(channel_free_[channel], costs_.latency[channel]));
    return nobody;
  }

  int receive(int i, const Work& item) {
    Time ready = 0;
    Time transfer = 0;
    for (int w = item.waits.first; w < item.waits.end; ++w) {
      const int on = program_.waits[index(w)];
      if (end_[index(on)] == unknown) return on;
      const bool own_send = work(on).channel == item.channel && is_send(work(on).instruction.op);
      if (own_send) transfer = end_[index(on)] - start_[index(on)];
      ready = std::max(ready, own_send ? start_[index(on)] : end_[index(on)]);
    }
    settle(i, ready, add(ready, transfer));
    return nobody;
  }

  int collective(int i, const Work& item, Device& self) {
    if (self.last_collective != nobody && end_[index(self.last_collective)] == unknown) {
      return self.last_collective;
    }
    Time ready = self.collective_free;
    for (int w = item.waits.first; w < item.waits.end; ++w) {
      const int on = program_.waits[index(w)];
      if (end_[index(on)] == unknown) return on;
      ready = std::max(ready, end_[index(on)]);
    }
    self.last_collective = i;
    Meeting& meeting = meetings_[index(*item.group)];
    meeting.ready = meeting.arrived.empty() ? ready : std::max(meeting.ready, ready);
    meeting.arrived.push_back(i);
    if (meeting.arrived.size() == program_.groups[index(*item.group)].chunks.size()) {
      hold(meeting, costs_.group[index(*item.group)]);
    }
    return nobody;
  }

  /// All members are there.
  void hold(Meeting& meeting, Time cost) {
    const Time end = add(meeting.ready, cost);
    for (const int member : meeting.arrived) {
      state(device_of(member)).collective_free = end;
      settle(member, meeting.ready, end);
    }
    meeting.arrived.clear();
  }

  void settle(int i, Time start, Time end) {
    start_[index(i)] = start;
    end_[index(i)] = end;
    for (int& sleeper = sleepers_[index(i)]; sleeper != nobody;) {
      awake_.push_back(sleeper);
      sleeper = state(sleeper).next_sleeper;
    }
  }

  // --- When nothing moves any more ---

  /// What keeps a work from being done, and how.
  struct Cause {
    int work = nobody;
    std::string_view how;
  };

  bool settled(int i) const { return end_[index(i)] != unknown; }

  /// Something it waits for; a member that has not come to its collective; or what stands before it
  /// in its device's order. None if it stands in no order.
  std::optional<Cause> cause(int i) {
    const IndexRange waits = work(i).waits;
    for (int w = waits.first; w < waits.end; ++w) {
      if (!settled(program_.waits[index(w)])) return Cause{program_.waits[index(w)], "waits for"};
    }
    const Device& device = state(device_of(i));
    const std::vector<int>& order = program_.order[index(device_of(i))];
    if (device.last_collective == i) return missing_member(*work(i).group);
    if (device.cursor == order.size()) return {};
    const int head = order[device.cursor];
    return Cause{head == i ? device.last_collective : head, "comes after"};
  }

  std::optional<Cause> missing_member(int group) {
    const std::vector<int>& arrived = meetings_[index(group)].arrived;
    for (int i = 0; i < static_cast<int>(program_.work.size()); ++i) {
      const bool came = std::find(arrived.begin(), arrived.end(), i) != arrived.end();
      if (work(i).group == group && !settled(i) && !came) return Cause{i, "waits for"};
    }
    return {};
  }

  std::string name(int i) const {
    return concat(to_string(work(i).instruction), " on device ", device_of(i));
  }

  /// From cause to cause, until one comes up again: that is the cycle.
  [[noreturn]] void fail_stuck(int i) {
    std::vector<Cause> chain{{i, ""}};
    while (true) {
      const std::optional<Cause> next = cause(chain.back().work);
      if (!next) fail_never(chain.front().work, chain.back().work);
      const auto again = std::find_if(chain.begin(), chain.end(),
                                      [&](const Cause& link) { return link.work == next->work; });
      chain.push_back(*next);
      if (again != chain.end() - 1) fail_cycle(chain, next->work);
    }
  }

  [[noreturn]] void fail_never(int waiting, int never) {
    throw Error(ErrorKind::check, concat("simulate: ", name(waiting),
                                         " waits for ever: ", name(never), " is never issued"));
  }

  [[noreturn]] void fail_cycle(const std::vector<Cause>& chain, int first) {
    std::string text;
    for (const Cause& link : chain) {
      if (!text.empty()) text += concat(" ", link.how, " ");
      if (!text.empty() || link.work == first) text += name(link.work) + ", which";
    }
    text.resize(text.size() - std::string_view(", which").size());
    throw Error(ErrorKind::check, "simulate: devices wait for each other: " + text);
  }

  const Program& program_;
  FlatCosts costs_;
  std::vector<Time> start_;
  std::vector<Time> end_;      ///< unknown until settled
  std::vector<int> sleepers_;  ///< per work, the first device that waits for it
  std::vector<Device> devices_;
  std::vector<Time> channel_free_;
  std::vector<Meeting> meetings_;
  std::vector<int> awake_;
};

// --- The timeline -------------------------------------------------------------------------------

/// A buffer's life begins or ends.
struct MemoryEvent {
  Duration time{0};
  int buffer = 0;
  bool begins = false;
};

std::optional<int> peer_of(const Program& program, const Work& work) {
  if (!work.channel) return {};
  const Channel& channel = program.channels[index(*work.channel)];
  const int other = is_send(work.instruction.op) ? channel.to : channel.from;
  return program.chunks[index(other)].device;
}

/// What happened so far, per device.
struct Record {
  std::vector<std::vector<Span>> spans;
  std::vector<std::vector<MemoryEvent>> memory;
};

void record_memory(std::vector<MemoryEvent>& events, const Program& program, const Work& work,
                   Duration start, Duration end) {
  for (int i = work.allocates.first; i < work.allocates.end; ++i) {
    events.push_back({.time = start, .buffer = program.allocations[index(i)], .begins = true});
  }
  for (int i = work.frees.first; i < work.frees.end; ++i) {
    events.push_back({.time = end, .buffer = program.releases[index(i)], .begins = false});
  }
}

void record(Record& record, const Program& program, const Clock& clock, int iteration) {
  for (int device = 0; device < program.devices; ++device) {
    for (const int item : program.order[index(device)]) {
      const Work& work = program.work[index(item)];
      record.spans[index(device)].push_back({.device = device,
                                             .lane = work.lane,
                                             .instruction = work.instruction,
                                             .peer = peer_of(program, work),
                                             .iteration = iteration,
                                             .start = clock.start(item),
                                             .end = clock.end(item)});
      record_memory(record.memory[index(device)], program, work, clock.start(item),
                    clock.end(item));
    }
  }
}

/// By start, then lane; equal ones keep their issue order.
std::vector<Span> sorted_spans(std::vector<std::vector<Span>> by_device) {
  std::size_t count = 0;
  for (const auto& spans : by_device) count += spans.size();
  std::vector<Span> all;
  all.reserve(count);
  for (auto& spans : by_device) {
    std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
      return a.start != b.start ? a.start < b.start : a.lane < b.lane;
    });
    all.insert(all.end(), spans.begin(), spans.end());
  }
  return all;
}

Bytes& category_of(MemoryUse& use, const Buffer& buffer) {
  return use[static_cast<std::size_t>(buffer.category)];
}

/// Memory use after each instant at which it changes. What ends and what begins at the same instant
/// cancel out, so a peak never contains both; neither does it depend on the order of events within
/// an instant.
std::vector<MemorySample> memory_samples(std::vector<MemoryEvent> events, const Program& program,
                                         MemoryUse use) {
  std::sort(events.begin(), events.end(),
            [](const MemoryEvent& a, const MemoryEvent& b) { return a.time < b.time; });
  std::vector<MemorySample> samples;
  std::size_t next = 0;
  Duration now{0};
  while (true) {
    for (; next < events.size() && events[next].time == now; ++next) {
      const Buffer& buffer = program.buffers[index(events[next].buffer)];
      category_of(use, buffer) += events[next].begins ? buffer.bytes : -buffer.bytes;
    }
    if (samples.empty() || samples.back().use != use) samples.push_back({.time = now, .use = use});
    if (next == events.size()) return samples;
    now = events[next].time;
  }
}

std::vector<MemoryUse> resident_use(const Program& program) {
  std::vector<MemoryUse> use(index(program.devices), MemoryUse{});
  for (const int i : program.resident) {
    const Buffer& buffer = program.buffers[index(i)];
    category_of(use[index(buffer.device)], buffer) += buffer.bytes;
  }
  return use;
}

Timeline timeline_of(Record record, const Program& program) {
  Timeline timeline{.devices = program.devices,
                    .stages = program.stages,
                    .microbatches = program.microbatches,
                    .spans = sorted_spans(std::move(record.spans)),
                    .memory = {}};
  if (program.buffers.empty()) return timeline;
  const std::vector<MemoryUse> resident = resident_use(program);
  for (int device = 0; device < program.devices; ++device) {
    timeline.memory.push_back(
        memory_samples(std::move(record.memory[index(device)]), program, resident[index(device)]));
  }
  return timeline;
}

}  // namespace

Costs uniform(const Program& program, const ChunkCosts& chunk, Duration transfer) {
  const ChannelCosts channel{.latency = transfer, .occupancy = Duration{0}};
  return {.chunks = std::vector<ChunkCosts>(program.chunks.size(), chunk),
          .channels = std::vector<ChannelCosts>(program.channels.size(), channel),
          .groups = std::vector<Duration>(program.groups.size(), Duration{0})};
}

Timeline simulate(const Program& program, const Costs& costs, const SimulateOptions& options) {
  if (options.iterations < 1) {
    fail("simulate: needs at least one iteration, not ", options.iterations);
  }
  Clock clock(program, costs);
  Record so_far{.spans = std::vector<std::vector<Span>>(index(program.devices)),
                .memory = std::vector<std::vector<MemoryEvent>>(index(program.devices))};
  for (int iteration = 0; iteration < options.iterations; ++iteration) {
    if (iteration > 0 && options.barrier) clock.barrier();
    clock.run();
    record(so_far, program, clock, iteration);
  }
  return timeline_of(std::move(so_far), program);
}

}  // namespace stagecraft
