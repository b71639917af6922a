#include "executor/training/recording.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Enough to hold a typical step, little enough for runs of any length.
constexpr int most_kept = 64;

Moment common_start(std::span<const Stamp> ranks) {
  return std::ranges::min_element(ranks, {}, &Stamp::start)->start;
}

Duration median(std::vector<Duration> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

/// The messages' stamps by channel and microbatch: a send happened when its receive did.
using Messages = std::map<std::pair<int, int>, Stamp>;

Messages messages_of(const Program& program, const StepRecord& record) {
  Messages messages;
  for (std::size_t i = 0; i < program.work.size(); ++i) {
    const Work& work = program.work[i];
    if (!is_receive(work.instruction.op)) continue;
    messages[{*work.channel, work.instruction.microbatch}] = record.work[i];
  }
  return messages;
}

int device_of(const Program& program, int chunk) {
  return program.chunks[index(chunk)].device;
}

std::optional<int> peer_of(const Program& program, const Work& work) {
  if (!work.channel) return {};
  const Channel& channel = program.channels[index(*work.channel)];
  const bool sends = is_send(work.instruction.op);
  return device_of(program, sends ? channel.to : channel.from);
}

Span span_of(const Program& program, const Work& work, int iteration, Stamp stamp, Moment origin) {
  return {.device = device_of(program, work.chunk),
          .lane = work.lane,
          .instruction = work.instruction,
          .peer = peer_of(program, work),
          .iteration = iteration,
          .start = stamp.start - origin,
          .end = stamp.end - origin};
}

void append_spans(std::vector<Span>& spans, const Program& program, const StepRecord& record,
                  int iteration, Moment origin) {
  const Messages messages = messages_of(program, record);
  for (std::size_t i = 0; i < program.work.size(); ++i) {
    const Work& work = program.work[i];
    const Stamp stamp = is_send(work.instruction.op)
                            ? messages.at({*work.channel, work.instruction.microbatch})
                            : record.work[i];
    spans.push_back(span_of(program, work, iteration, stamp, origin));
  }
}

}  // namespace

RunRecording::RunRecording(const Program& program, int ranks, int steps)
    : kept_(index(std::clamp(steps, 1, most_kept)),
            StepRecord{.work = std::vector<Stamp>(program.work.size()),
                       .ranks = std::vector<Stamp>(index(ranks))}) {}

StepRecord& RunRecording::step(int step) {
  return kept_[index(step) % kept_.size()];
}

Duration step_time(std::span<const Stamp> ranks) {
  return std::ranges::max_element(ranks, {}, &Stamp::end)->end - common_start(ranks);
}

int first_kept(int steps) {
  return std::max(0, steps - most_kept);
}

int typical_step(std::span<const Duration> step_times) {
  const Duration typical = median({step_times.begin(), step_times.end()});
  const auto distance = [&](int i) { return std::abs((step_times[index(i)] - typical).count()); };
  const int steps = static_cast<int>(step_times.size());
  int best = steps - 1;
  for (int step = first_kept(steps); step < steps; ++step) {
    if (distance(step) < distance(best)) best = step;
  }
  return best;
}

Timeline timeline_of(const Program& program, std::span<const StepRecord> records) {
  Timeline timeline{.devices = program.devices,
                    .stages = program.stages,
                    .microbatches = program.microbatches,
                    .spans = {},
                    .memory = {}};
  if (records.empty()) return timeline;
  const Moment origin = common_start(records.front().ranks);
  timeline.spans.reserve(records.size() * program.work.size());
  for (std::size_t i = 0; i < records.size(); ++i)
    append_spans(timeline.spans, program, records[i], static_cast<int>(i), origin);
  std::ranges::stable_sort(timeline.spans, {}, [](const Span& span) {
    return std::tuple(span.device, span.start, span.lane);
  });
  return timeline;
}

}  // namespace stagecraft
