#include "simulator/analyses/critical_runs.hpp"

#include <algorithm>
#include <tuple>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// The path in words: one run per link that takes time.
std::vector<CriticalRun> single_runs(const Program& program, const TimingGraph& graph,
                                     const std::vector<CriticalLink>& links,
                                     const std::optional<RepeatedLinks>& repeated) {
  std::vector<CriticalRun> runs;
  for (std::size_t i = 0; i < links.size(); ++i) {
    const CriticalLink& link = links[i];
    if (link.time == Duration{0}) continue;
    const int more = repeated ? repeated->times : 0;
    const int later = more * (repeated ? repeated->microbatches : 0);
    const bool comes_again = repeated && i >= repeated->first && i < repeated->end;
    const bool is_behind = repeated && i >= repeated->end;
    const Work& work = program.work[index(graph.send_of(link.work).value_or(link.work))];
    CriticalRun run{
        .round = 0,
        .device = program.chunks[index(work.chunk)].device,
        .peer = {},
        .op = work.instruction.op,
        .stage = work.instruction.stage,
        .first_microbatch = work.instruction.microbatch + (is_behind ? later : 0),
        .last_microbatch = work.instruction.microbatch + (is_behind || comes_again ? later : 0),
        .count = comes_again ? 1 + more : 1,
        .time = (comes_again ? 1 + more : 1) * link.time};
    if (work.channel) {
      run.peer = program.chunks[index(program.channels[index(*work.channel)].to)].device;
    }
    runs.push_back(run);
  }
  return runs;
}

bool same_kind(const CriticalRun& a, const CriticalRun& b) {
  return std::tie(a.device, a.peer, a.op, a.stage) == std::tie(b.device, b.peer, b.op, b.stage);
}

/// `period` runs that come `repeats` times.
struct Rhythm {
  std::size_t period = 1;
  std::size_t repeats = 1;
  std::size_t length() const { return period * repeats; }
};

/// The rhythm from `first` on that covers most.
Rhythm rhythm(const std::vector<CriticalRun>& runs, std::size_t first) {
  constexpr std::size_t longest_period = 64;
  Rhythm best;
  for (std::size_t period = 1; period <= longest_period; ++period) {
    std::size_t end = first + period;
    while (end < runs.size() && same_kind(runs[end], runs[end - period])) ++end;
    if (end > runs.size()) break;
    const Rhythm found{period, (end - first) / period};
    if (found.repeats > 1 && found.length() > best.length()) best = found;
  }
  return best;
}

std::vector<CriticalRun> folded(const std::vector<CriticalRun>& singles) {
  std::vector<CriticalRun> runs;
  int round = 0;
  for (std::size_t first = 0; first < singles.size(); ++round) {
    const Rhythm found = rhythm(singles, first);
    for (std::size_t i = first; i < first + found.period; ++i) {
      CriticalRun& run = runs.emplace_back(singles[i]);
      run.round = round;
      for (std::size_t j = i + found.period; j < first + found.length(); j += found.period) {
        run.first_microbatch = std::min(run.first_microbatch, singles[j].first_microbatch);
        run.last_microbatch = std::max(run.last_microbatch, singles[j].last_microbatch);
        run.count += singles[j].count;
        run.time += singles[j].time;
      }
    }
    first += found.length();
  }
  return runs;
}

}  // namespace

std::vector<CriticalRun> critical_runs(const Program& program, const TimingGraph& graph,
                                       const std::vector<CriticalLink>& links,
                                       const std::optional<RepeatedLinks>& repeated) {
  return folded(single_runs(program, graph, links, repeated));
}

}  // namespace stagecraft
