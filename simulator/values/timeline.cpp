#include "simulator/values/timeline.hpp"

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// How often it happens.
int count_of(const Timeline& timeline, const Span& span) {
  return timeline.repeat ? timeline.repeat->count(span.instruction.microbatch) : 1;
}

/// Time in which a device serves the model: updates, waits and messages do not count.
bool is_busy(const Span& span) {
  return span.lane == Lane::compute && span.instruction.op <= Op::recompute;
}

}  // namespace

Duration step_time(const Timeline& timeline) {
  if (timeline.spans.empty()) return Duration{0};
  Duration first = timeline.spans.front().start;
  Duration last = timeline.spans.front().end;
  for (const Span& span : timeline.spans) {
    first = std::min(first, span.start);
    last = std::max(last, span.end);
  }
  return last - first + (timeline.repeat ? timeline.repeat->added() : Duration{0});
}

std::vector<Duration> span_times(const Timeline& timeline) {
  std::vector<std::optional<Span>> hulls(index(timeline.devices));
  for (const Span& span : timeline.spans) {
    // An update that takes no time still waits for the reductions before it; the device has long
    // ended.
    if (span.lane != Lane::compute || span.time() == Duration{0}) continue;
    std::optional<Span>& hull = hulls[index(span.device)];
    if (!hull) hull = span;
    hull->start = std::min(hull->start, span.start);
    hull->end = std::max(hull->end, span.end);
  }
  std::vector<Duration> times;
  const Duration added = timeline.repeat ? timeline.repeat->added() : Duration{0};
  for (const auto& hull : hulls) times.push_back(hull ? hull->time() + added : Duration{0});
  return times;
}

std::vector<Duration> busy_times(const Timeline& timeline) {
  std::vector<Duration> times(index(timeline.devices), Duration{0});
  std::vector<Duration> counted(index(timeline.devices), Duration::min());  // until when
  for (const Span& span : timeline.spans) {
    if (!is_busy(span)) continue;
    Duration& until = counted[index(span.device)];
    if (span.end <= until) continue;  // the second half of a fused pair
    times[index(span.device)] +=
        count_of(timeline, span) * (span.end - std::max(span.start, until));
    until = span.end;
  }
  return times;
}

double bubble(const Timeline& timeline) {
  const Duration step = step_time(timeline);
  if (step == Duration{0} || timeline.devices == 0) return 0;
  double busy = 0;
  for (const Duration time : busy_times(timeline)) busy += static_cast<double>(time.count());
  return 1 - busy / timeline.devices / static_cast<double>(step.count());
}

double span_bubble(const Timeline& timeline) {
  const std::vector<Duration> spans = span_times(timeline);
  const auto longest = std::max_element(spans.begin(), spans.end());
  if (longest == spans.end() || *longest == Duration{0}) return 0;
  const Duration busy = busy_times(timeline)[static_cast<std::size_t>(longest - spans.begin())];
  return 1 - static_cast<double>(busy.count()) / static_cast<double>(longest->count());
}

namespace {

/// A device holds one microbatch of a stage more, or one less, from some moment on.
struct Change {
  Duration time{0};
  int by = 0;
};

bool happens(const Timeline& timeline, bool (*kind)(Op)) {
  return std::any_of(timeline.spans.begin(), timeline.spans.end(),
                     [&](const Span& span) { return kind(span.instruction.op); });
}

bool moves_activations(Op op) {
  return op == Op::evict || op == Op::take_in || op == Op::give_back || op == Op::load;
}

/// Per device. A device's compute is serial and listed by start, so its order tells who holds what;
/// transfers run beside it. In a fused pair the forward comes first: both hold theirs until the
/// end.
std::vector<std::vector<Change>> changes_of(const Timeline& timeline, Op split_release) {
  const bool trains = happens(timeline, is_backward);
  std::vector<std::vector<Change>> changes(index(timeline.devices));
  for (const Span& span : timeline.spans) {
    const Op op = span.instruction.op;
    auto& list = changes[index(span.device)];
    if (op == Op::forward || op == Op::take_in || op == Op::load) list.push_back({span.start, 1});
    const bool releases = op == Op::backward || op == split_release || op == Op::evict ||
                          op == Op::give_back || (op == Op::forward && !trains);
    if (releases) list.push_back({span.end, -1});
  }
  if (!happens(timeline, moves_activations)) return changes;
  for (auto& list : changes) {
    std::sort(list.begin(), list.end(), [](const Change& a, const Change& b) {
      return a.time != b.time ? a.time < b.time : a.by < b.by;
    });
  }
  return changes;
}

}  // namespace

std::vector<int> peak_in_flight(const Timeline& timeline, bool until_input) {
  std::vector<int> peaks;
  for (const auto& changes :
       changes_of(timeline, until_input ? Op::backward_input : Op::backward_weight)) {
    int held = 0;
    int peak = 0;
    for (const Change& change : changes) peak = std::max(peak, held += change.by);
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<int> messages_sent(const Timeline& timeline, Op op) {
  std::vector<int> messages(index(timeline.devices), 0);
  for (const Span& span : timeline.spans) {
    if (span.instruction.op == op) messages[index(span.device)] += count_of(timeline, span);
  }
  return messages;
}

namespace {

/// Of the microbatches that repeat, the end of the first work.
Duration behind_repeat(const Timeline& timeline) {
  const int next = timeline.repeat->first + timeline.repeat->microbatches;
  Duration moment = Duration::max();
  for (const Span& span : timeline.spans) {
    if (span.lane == Lane::compute && span.instruction.microbatch >= next)
      moment = std::min(moment, span.end);
  }
  return moment;
}

}  // namespace

std::vector<MemoryPeak> memory_peaks(const Timeline& timeline) {
  std::vector<MemoryPeak> peaks;
  for (const std::vector<MemorySample>& samples : timeline.memory) {
    MemoryPeak& peak = peaks.emplace_back();
    for (const MemorySample& sample : samples) {
      const Bytes bytes = total(sample.use);
      if (bytes > peak.bytes) peak = {.bytes = bytes, .time = sample.time, .use = sample.use};
    }
    // What repeats reaches nothing for the first time when it comes again.
    if (timeline.repeat && peak.time >= behind_repeat(timeline))
      peak.time += timeline.repeat->added();
  }
  return peaks;
}

void require_whole(const Timeline& timeline, std::string_view who) {
  if (!timeline.repeat) return;
  fail_usage(who, " needs every microbatch of the step, and ",
             std::int64_t{timeline.repeat->times} * timeline.repeat->microbatches,
             " of them are counted by what repeats: ask for fewer microbatches");
}

}  // namespace stagecraft
