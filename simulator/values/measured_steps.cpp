#include "simulator/values/measured_steps.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// One work's identity in a timeline. Unequal replicas split a message into several, told apart by
/// `peer`. Sums over different stages that share weights with one are alike: they come in the
/// program's order.
struct Key {
  int device = 0;
  Instruction instruction;
  int peer = -1;
  auto operator<=>(const Key&) const = default;
};

Key key_of(const Program& program, const Work& work) {
  Key key{.device = program.chunks[index(work.chunk)].device, .instruction = work.instruction};
  if (work.channel) {
    const Channel& channel = program.channels[index(*work.channel)];
    const int other = is_send(work.instruction.op) ? channel.to : channel.from;
    key.peer = program.chunks[index(other)].device;
  }
  return key;
}

constexpr std::string_view remedy = "record one with stagecraft run PLAN --trace FILE";

/// Per iteration, the spans by work.
using Found = std::vector<std::vector<const Span*>>;

Found find_spans(const Program& program, const Timeline& timeline) {
  std::map<Key, std::vector<int>> places;
  for (std::size_t i = 0; i < program.work.size(); ++i)
    places[key_of(program, program.work[i])].push_back(static_cast<int>(i));
  Found found;
  for (const Span& span : timeline.spans) {
    const auto place = places.find({span.device, span.instruction, span.peer.value_or(-1)});
    if (place == places.end()) {
      fail("the timeline has ", to_string(span.instruction), " on device ", span.device,
           ", which the plan has not: it is of another plan; ", remedy);
    }
    if (span.iteration < 0 || index(span.iteration) > timeline.spans.size())
      fail("the timeline's steps do not count from 0; ", remedy);
    if (index(span.iteration) >= found.size())
      found.resize(index(span.iteration) + 1, std::vector<const Span*>(program.work.size()));
    auto& step = found[index(span.iteration)];
    const auto free =
        std::ranges::find_if(place->second, [&](int work) { return step[index(work)] == nullptr; });
    if (free == place->second.end()) {
      const std::size_t known = place->second.size();
      fail("the timeline has ", to_string(span.instruction), " on device ", span.device,
           known == 1 ? " twice" : " more than " + std::to_string(known) + " times",
           " in its step ", span.iteration, "; ", remedy);
    }
    step[index(*free)] = &span;
  }
  return found;
}

void require_whole(const Program& program, const Found& found) {
  if (found.empty()) fail("the timeline is empty; ", remedy);
  for (std::size_t step = 0; step < found.size(); ++step) {
    const auto missing = std::ranges::find(found[step], nullptr);
    if (missing == found[step].end()) continue;
    const auto work = static_cast<int>(missing - found[step].begin());
    fail("the timeline lacks ", describe(program, work), " in its step ", step,
         ": it is of another plan, or cut short; ", remedy);
  }
}

bool occupies(const Work& work) {
  return work.lane == Lane::compute || work.lane == Lane::collective;
}

/// What compute on one device waits for besides messages: whatever was before it.
void set_ready_compute(const Program& program, const std::vector<int>& order, MeasuredStep& step) {
  std::optional<Duration> before;
  for (const int i : order) {
    const Work& work = program.work[index(i)];
    if (!occupies(work)) continue;
    MeasuredWork& measured = step.work[index(i)];
    if (work.lane == Lane::compute) {
      std::optional<Duration> ready = before;
      std::for_each(begin_of(program.waits, work.waits), end_of(program.waits, work.waits),
                    [&](int on) {
                      const Duration end = step.work[index(on)].end;
                      ready = std::max(ready.value_or(end), end);
                    });
      measured.ready = std::min(ready.value_or(measured.start), measured.start);
    }
    before = std::max(before.value_or(measured.end), measured.end);
  }
}

void set_ready_collectives(const Program& program, MeasuredStep& step) {
  std::map<std::tuple<int, Op, int>, Duration> met;
  const auto meeting = [&](const Work& work) {
    return std::tuple(*work.group, work.instruction.op, work.instruction.microbatch);
  };
  for (std::size_t i = 0; i < program.work.size(); ++i) {
    if (!program.work[i].group) continue;
    Duration& last = met.try_emplace(meeting(program.work[i]), step.work[i].start).first->second;
    last = std::max(last, step.work[i].start);
  }
  for (std::size_t i = 0; i < program.work.size(); ++i) {
    if (!program.work[i].group) continue;
    step.work[i].ready = std::min(met.at(meeting(program.work[i])), step.work[i].end);
  }
}

MeasuredStep step_of(const Program& program, const std::vector<const Span*>& spans) {
  MeasuredStep step;
  Duration first = Duration::max();
  Duration last = Duration::min();
  for (const Span* span : spans) {
    step.work.push_back({.ready = span->start, .start = span->start, .end = span->end});
    first = std::min(first, span->start);
    last = std::max(last, span->end);
  }
  step.time = last - first;
  for (const std::vector<int>& order : program.order) set_ready_compute(program, order, step);
  set_ready_collectives(program, step);
  return step;
}

}  // namespace

std::vector<MeasuredStep> measured_steps(const Program& program, const Timeline& timeline) {
  if (program.devices != timeline.devices) {
    fail("the timeline is of ", timeline.devices, " devices, the plan of ", program.devices,
         ": it is of another plan; ", remedy);
  }
  const Found found = find_spans(program, timeline);
  require_whole(program, found);
  std::vector<MeasuredStep> steps;
  for (const auto& spans : found) steps.push_back(step_of(program, spans));
  return steps;
}

Duration median_time(const std::vector<MeasuredStep>& steps) {
  std::vector<Duration> times;
  for (const MeasuredStep& step : steps) times.push_back(step.time);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

Timeline median_iteration(const Timeline& timeline) {
  struct Extent {
    Duration first = Duration::max();
    Duration last = Duration::min();
  };
  std::map<int, Extent> extents;
  for (const Span& span : timeline.spans) {
    Extent& extent = extents[span.iteration];
    extent.first = std::min(extent.first, span.start);
    extent.last = std::max(extent.last, span.end);
  }
  std::vector<std::pair<Duration, int>> times;
  for (const auto& [iteration, extent] : extents)
    times.emplace_back(extent.last - extent.first, iteration);
  std::ranges::sort(times);
  Timeline result = timeline;
  result.memory.clear();
  if (times.empty()) return result;
  const int chosen = times[(times.size() - 1) / 2].second;
  std::erase_if(result.spans, [&](const Span& span) { return span.iteration != chosen; });
  for (Span& span : result.spans) {
    span.iteration = 0;
    span.start -= extents[chosen].first;
    span.end -= extents[chosen].first;
  }
  return result;
}

}  // namespace stagecraft
