#include "simulator/views/alike_rows.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// A piece of work and when it is done.
using Done = std::tuple<Op, int, int, int, std::int64_t, std::int64_t>;

Done done_by(const Span& span) {
  return {span.instruction.op, span.instruction.stage, span.instruction.microbatch,
          span.iteration,      span.start.count(),     span.end.count()};
}

std::vector<std::vector<int>> groups_of(const Timeline& timeline) {
  std::vector<std::vector<Done>> work(index(timeline.devices));
  for (const Span& span : timeline.spans) {
    if (span.lane == Lane::compute) work[index(span.device)].push_back(done_by(span));
  }
  std::map<std::vector<Done>, std::size_t> places;
  std::vector<std::vector<int>> groups;
  for (int device = 0; device < timeline.devices; ++device) {
    const auto [place, is_new] = places.try_emplace(std::move(work[index(device)]), groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(device);
  }
  return groups;
}

}  // namespace

AlikeRows alike_rows(const Timeline& timeline, const std::vector<char>& critical) {
  AlikeRows rows{.timeline = {.devices = 0,
                              .stages = timeline.stages,
                              .microbatches = timeline.microbatches,
                              .spans = {},
                              .memory = {}},
                 .members = groups_of(timeline),
                 .critical = {}};
  rows.timeline.devices = static_cast<int>(rows.members.size());
  std::vector<int> row_of(index(timeline.devices));
  for (std::size_t row = 0; row < rows.members.size(); ++row) {
    for (const int device : rows.members[row]) row_of[index(device)] = static_cast<int>(row);
  }
  std::set<std::tuple<int, Lane, Done>> on_chain;
  const bool has_chain = critical.size() == timeline.spans.size();
  for (std::size_t i = 0; has_chain && i < critical.size(); ++i) {
    const Span& span = timeline.spans[i];
    if (critical[i] != 0) on_chain.emplace(row_of[index(span.device)], span.lane, done_by(span));
  }
  for (const Span& span : timeline.spans) {
    const int row = row_of[index(span.device)];
    if (rows.members[index(row)].front() != span.device) continue;
    Span shown = span;
    shown.device = row;
    if (shown.peer) shown.peer = row_of[index(*shown.peer)];
    if (has_chain)
      rows.critical.push_back(on_chain.contains({row, span.lane, done_by(span)}) ? 1 : 0);
    rows.timeline.spans.push_back(shown);
  }
  if (timeline.memory.empty()) return rows;
  const std::vector<MemoryPeak> peaks = memory_peaks(timeline);
  for (const std::vector<int>& group : rows.members) {
    const int fullest = *std::ranges::max_element(
        group, {}, [&](int device) { return peaks[index(device)].bytes; });
    rows.timeline.memory.push_back(timeline.memory[index(fullest)]);
  }
  return rows;
}

std::string device_words(const std::vector<int>& devices) {
  std::string words = devices.size() == 1 ? "device" : "devices";
  int runs = 0;
  for (std::size_t first = 0, end = 0; first < devices.size(); first = end) {
    for (end = first + 1; end < devices.size() && devices[end] == devices[end - 1] + 1;) ++end;
    constexpr int most_runs = 4;
    if (++runs > most_runs) return words + " ...";
    words += concat(" ", devices[first]);
    if (end > first + 1) words += concat("-", devices[end - 1]);
  }
  return words;
}

std::vector<int> devices_of(const std::vector<int>& members,
                            const std::vector<std::vector<int>>& devices) {
  std::vector<int> all;
  for (const int member : members) {
    const bool is_named = index(member) < devices.size();
    const std::vector<int> own = is_named ? devices[index(member)] : std::vector{member};
    all.insert(all.end(), own.begin(), own.end());
  }
  std::ranges::sort(all);
  return all;
}

}  // namespace stagecraft
