#include "simulator/engines/recording.hpp"

#include <algorithm>
#include <optional>

#include "profiles/abandonment.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Equal starts keep the issue order.
void sort_by_start(std::vector<Moment>& moments) {
  const auto earlier = [](const Moment& a, const Moment& b) { return a.start < b.start; };
  if (std::is_sorted(moments.begin(), moments.end(), earlier)) return;
  std::stable_sort(moments.begin(), moments.end(), earlier);
}

// --- Spans --------------------------------------------------------------------------------------

std::optional<int> peer_of(const Program& program, const Work& work) {
  if (!work.channel) return {};
  const Channel& channel = program.channels[index(*work.channel)];
  const int other = is_send(work.instruction.op) ? channel.to : channel.from;
  return program.chunks[index(other)].device;
}

Span span_of(const Program& program, int device, const Moment& moment) {
  const Work& work = program.work[index(moment.work)];
  return {.device = device,
          .lane = work.lane,
          .instruction = work.instruction,
          .peer = peer_of(program, work),
          .iteration = moment.iteration,
          .start = moment.start,
          .end = moment.end};
}

/// Merges the lanes: by start, then lane.
void append_spans(std::vector<Span>& spans, const Program& program, int device,
                  const Moments& moments) {
  std::array<std::size_t, lanes.size()> next{};
  while (true) {
    std::optional<std::size_t> first;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      if (next[lane] == moments[lane].size()) continue;
      const Duration start = moments[lane][next[lane]].start;
      if (!first || start < moments[*first][next[*first]].start) first = lane;
    }
    if (!first) return;
    spans.push_back(span_of(program, device, moments[*first][next[*first]++]));
  }
}

std::vector<Span> spans_of(const Program& program, const std::vector<Moments>& by_device) {
  std::size_t count = 0;
  for (const Moments& device : by_device) {
    for (const auto& lane : device) count += lane.size();
  }
  std::vector<Span> spans;
  spans.reserve(count);
  for (int device = 0; device < program.devices; ++device) {
    check_abandoned();
    append_spans(spans, program, device, by_device[index(device)]);
  }
  return spans;
}

// --- Memory -------------------------------------------------------------------------------------

/// A buffer's life begins or ends.
struct MemoryEvent {
  Duration time{0};
  int buffer = 0;
  bool begins = false;
};

/// By time.
std::vector<MemoryEvent> memory_events(const Program& program, const Moments& moments) {
  std::vector<MemoryEvent> events;
  for (const std::vector<Moment>& lane : moments) {
    for (const Moment& moment : lane) {
      const Work& work = program.work[index(moment.work)];
      for (int i = work.allocates.first; i < work.allocates.end; ++i) {
        events.push_back({moment.start, program.allocations[index(i)], true});
      }
      for (int i = work.frees.first; i < work.frees.end; ++i) {
        events.push_back({moment.end, program.releases[index(i)], false});
      }
    }
  }
  std::sort(events.begin(), events.end(),
            [](const MemoryEvent& a, const MemoryEvent& b) { return a.time < b.time; });
  return events;
}

Bytes& category_of(MemoryUse& use, const Buffer& buffer) {
  return use[static_cast<std::size_t>(buffer.category)];
}

/// Memory use after each instant at which it changes. What ends and what begins at the same instant
/// cancel out, so a peak never contains both; neither does it depend on the order of events within
/// an instant.
std::vector<MemorySample> memory_samples(const std::vector<MemoryEvent>& events,
                                         const Program& program, MemoryUse use) {
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
  for (std::size_t device = 0; device < program.reserve.size(); ++device) {
    use[device][static_cast<std::size_t>(MemoryCategory::reserve)] = program.reserve[device];
  }
  for (const int i : program.resident) {
    const Buffer& buffer = program.buffers[index(i)];
    category_of(use[index(buffer.device)], buffer) += buffer.bytes;
  }
  return use;
}

/// Per device; empty for a program that says nothing about memory.
std::vector<std::vector<MemorySample>> memory_of(const Program& program,
                                                 const std::vector<Moments>& by_device) {
  std::vector<std::vector<MemorySample>> memory;
  if (program.buffers.empty()) return memory;
  const std::vector<MemoryUse> resident = resident_use(program);
  for (std::size_t device = 0; device < by_device.size(); ++device) {
    check_abandoned();
    memory.push_back(
        memory_samples(memory_events(program, by_device[device]), program, resident[device]));
  }
  return memory;
}

}  // namespace

Recording::Recording(const Program& program)
    : program_(program), by_device_(index(program.devices)) {}

void Recording::note(int device, const Moment& moment) {
  const auto lane = static_cast<std::size_t>(program_.work[index(moment.work)].lane);
  by_device_[index(device)][lane].push_back(moment);
}

Timeline Recording::timeline() && {
  for (Moments& device : by_device_) {
    for (std::vector<Moment>& lane : device) sort_by_start(lane);
  }
  return {.devices = program_.devices,
          .stages = program_.stages,
          .microbatches = program_.microbatches,
          .spans = spans_of(program_, by_device_),
          .memory = memory_of(program_, by_device_)};
}

}  // namespace stagecraft
