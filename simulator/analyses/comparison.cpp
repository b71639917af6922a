#include "simulator/analyses/comparison.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "profiles/error.hpp"

namespace stagecraft {
namespace {

/// One span's identity in both timelines. Unequal replicas split a message into several, told apart
/// by `peer`.
struct Key {
  int device = 0;
  Instruction instruction;
  int peer = -1;
  auto operator<=>(const Key&) const = default;
};

using Spans = std::map<Key, const Span*>;

Spans spans_of(const Timeline& timeline) {
  Spans spans;
  for (const Span& span : timeline.spans) {
    if (span.iteration == 0)
      spans.emplace(Key{span.device, span.instruction, span.peer.value_or(-1)}, &span);
  }
  return spans;
}

Duration first_start(const Spans& spans) {
  Duration first = Duration::max();
  for (const auto& [key, span] : spans) first = std::min(first, span->start);
  return spans.empty() ? Duration{0} : first;
}

Duration last_end(const Spans& spans) {
  Duration last{0};
  for (const auto& [key, span] : spans) last = std::max(last, span->end);
  return last;
}

void require_same_work(const Timeline& predicted, const Timeline& measured, const Spans& ours,
                       const Spans& theirs) {
  require_whole(predicted, "a comparison with what was measured");
  if (predicted.devices != measured.devices) {
    fail("the timelines differ in devices: ", predicted.devices, " predicted, ", measured.devices,
         " measured");
  }
  for (const auto& [key, span] : ours) {
    if (!theirs.contains(key)) {
      fail("the measured timeline lacks ", to_string(key.instruction), " of device ", key.device,
           ": it is of another plan");
    }
  }
  if (ours.size() != theirs.size())
    fail("the measured timeline has instructions the plan does not: it is of another plan");
}

Duration mean(Duration sum, int count) {
  return count > 0 ? sum / count : Duration{0};
}

std::vector<KindDifference> kind_differences(const Spans& ours, const Spans& theirs) {
  std::map<std::pair<int, Op>, KindDifference> kinds;
  for (const auto& [key, span] : ours) {
    if (span->lane == Lane::send || span->lane == Lane::receive) continue;
    KindDifference& kind = kinds[{key.instruction.stage, key.instruction.op}];
    kind.op = key.instruction.op;
    kind.stage = key.instruction.stage;
    kind.count += 1;
    kind.predicted += span->time();
    kind.measured += theirs.at(key)->time();
  }
  std::vector<KindDifference> list;
  for (auto& [key, kind] : kinds) {
    kind.predicted = mean(kind.predicted, kind.count);
    kind.measured = mean(kind.measured, kind.count);
    list.push_back(kind);
  }
  return list;
}

std::vector<LinkDifference> link_differences(const Spans& ours, const Spans& theirs) {
  std::map<std::pair<int, int>, LinkDifference> links;
  for (const auto& [key, span] : ours) {
    if (span->lane != Lane::send || !span->peer) continue;
    LinkDifference& link = links[{key.device, *span->peer}];
    link.from = key.device;
    link.to = *span->peer;
    link.count += 1;
    link.predicted += span->time();
    link.measured += theirs.at(key)->time();
  }
  std::vector<LinkDifference> list;
  for (auto& [key, link] : links) {
    link.predicted = mean(link.predicted, link.count);
    link.measured = mean(link.measured, link.count);
    list.push_back(link);
  }
  return list;
}

int last_device(const Spans& spans) {
  const auto last = std::max_element(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
    return a.second->end < b.second->end;
  });
  return last == spans.end() ? 0 : last->first.device;
}

/// Compute by kind and stage, and the rest of the step; together the whole difference.
std::vector<Share> shares_of(int device, const Spans& ours, const Spans& theirs,
                             Duration difference) {
  std::map<std::pair<int, Op>, Duration> extra;
  Duration explained{0};
  for (const auto& [key, span] : ours) {
    if (key.device != device || span->lane != Lane::compute) continue;
    const Duration more = theirs.at(key)->time() - span->time();
    extra[{key.instruction.stage, key.instruction.op}] += more;
    explained += more;
  }
  std::vector<Share> shares;
  for (const auto& [key, more] : extra)
    shares.push_back({concat(letter(key.second), " on stage ", key.first), more});
  shares.push_back({"waiting and gaps", difference - explained});
  std::stable_sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) {
    return std::chrono::abs(a.extra) > std::chrono::abs(b.extra);
  });
  return shares;
}

std::optional<Departure> first_departure(const Spans& ours, const Spans& theirs, Duration our_start,
                                         Duration their_start, Duration tolerance) {
  std::vector<std::pair<Duration, Key>> by_start;
  for (const auto& [key, span] : theirs) {
    if (span->lane == Lane::compute) by_start.emplace_back(span->start, key);
  }
  std::sort(by_start.begin(), by_start.end());
  for (const auto& [start, key] : by_start) {
    const Span& predicted = *ours.at(key);
    const Span& measured = *theirs.at(key);
    const Duration late = (measured.end - their_start) - (predicted.end - our_start);
    if (std::chrono::abs(late) <= tolerance) continue;
    const Duration slower = measured.time() - predicted.time();
    const bool computes = 2 * std::chrono::abs(slower) >= std::chrono::abs(late);
    const std::string because = late.count() > 0 ? (computes ? "slow compute" : "late start")
                                                 : (computes ? "fast compute" : "early start");
    return Departure{key.device, key.instruction, late, because};
  }
  return {};
}

}  // namespace

Comparison compare(const Timeline& predicted, const Timeline& measured) {
  const Spans ours = spans_of(predicted);
  const Spans theirs = spans_of(measured);
  require_same_work(predicted, measured, ours, theirs);
  const Duration our_start = first_start(ours);
  const Duration their_start = first_start(theirs);
  Comparison result;
  result.predicted = last_end(ours) - our_start;
  result.measured = last_end(theirs) - their_start;
  result.error =
      result.measured.count() > 0 ? seconds(result.predicted) / seconds(result.measured) - 1 : 0;
  result.kinds = kind_differences(ours, theirs);
  result.links = link_differences(ours, theirs);
  result.device = last_device(theirs);
  result.shares = shares_of(result.device, ours, theirs, result.measured - result.predicted);
  result.departure = first_departure(ours, theirs, our_start, their_start, result.predicted / 100);
  return result;
}

}  // namespace stagecraft
