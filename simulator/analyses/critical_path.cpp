#include "simulator/analyses/critical_path.hpp"

#include <algorithm>
#include <cassert>
#include <set>
#include <tuple>

#include "profiles/index.hpp"
#include "simulator/analyses/critical_runs.hpp"

namespace stagecraft {

namespace {

using Arc = TimingGraph::Arc;

using Link = CriticalLink;

class Walk {
 public:
  Walk(const Program& program, const TimingGraph& graph) : program_(program), graph_(graph) {}

  std::vector<Link> path() const {
    const std::optional<int> last = last_work();
    if (!last) return {};
    std::vector<Link> links{{*last, graph_.time(*last)}};
    while (graph_.start(links.back().work) > Duration{0}) {
      const Arc arc = tight_arc(links.back().work);
      links.push_back({arc.from, arc.delay});
    }
    std::reverse(links.begin(), links.end());
    return links;
  }

  /// Backward pass, from what nothing waits for: the latest start of each event is the least that
  /// its successors allow.
  std::vector<Duration> slack() const {
    const int works = graph_.works();
    std::vector<int> waiting(index(works), 0);
    std::vector<Duration> latest;
    for (int work = 0; work < works; ++work) {
      latest.push_back(graph_.step() - graph_.time(work));
      if (graph_.event_of(work) != work) continue;
      for (const Arc& arc : graph_.arcs_into(work)) ++waiting[index(graph_.event_of(arc.from))];
    }
    std::vector<int> ready;
    for (int work = 0; work < works; ++work) {
      if (graph_.event_of(work) == work && waiting[index(work)] == 0) ready.push_back(work);
    }
    while (!ready.empty()) {
      const int event = ready.back();
      ready.pop_back();
      for (const Arc& arc : graph_.arcs_into(event)) {
        const int from = graph_.event_of(arc.from);
        latest[index(from)] = std::min(latest[index(from)], latest[index(event)] - arc.delay);
        if (--waiting[index(from)] == 0) ready.push_back(from);
      }
    }
    std::vector<Duration> slack;
    for (int work = 0; work < works; ++work) {
      slack.push_back(latest[index(graph_.event_of(work))] - graph_.start(work));
    }
    return slack;
  }

 private:
  int device_of(int work) const {
    return program_.chunks[index(program_.work[index(work)].chunk)].device;
  }

  /// Of the first device that has any, its last in issue order.
  std::optional<int> last_work() const {
    for (const std::vector<int>& order : program_.order) {
      for (auto work = order.rbegin(); work != order.rend(); ++work) {
        if (graph_.end(*work) == graph_.step()) return *work;
      }
    }
    return {};
  }

  Arc tight_arc(int work) const {
    const auto rank = [&](const Arc& arc) {
      return std::tuple(device_of(arc.from) != device_of(work), arc.from);
    };
    std::optional<Arc> best;
    for (const Arc& arc : graph_.arcs_into(graph_.event_of(work))) {
      if (graph_.start(arc.from) + arc.delay != graph_.start(work)) continue;
      if (!best || rank(arc) < rank(*best)) best = arc;
    }
    assert(best);
    return *best;
  }

  const Program& program_;
  const TimingGraph& graph_;
};

}  // namespace

CriticalPath critical_path(const Program& program, const Costs& costs) {
  const TimingGraph graph(program, costs);
  const Walk walk(program, graph);
  const std::vector<Link> links = walk.path();
  CriticalPath path{
      .runs = critical_runs(program, graph, links), .works = {}, .slack = walk.slack()};
  for (const Link& link : links) path.works.push_back(link.work);
  return path;
}

std::vector<char> on_path(const CriticalPath& path, const Program& program,
                          const Timeline& timeline) {
  using Place = std::tuple<int, std::optional<int>, Op, int, int>;
  std::set<Place> places;
  const auto place = [&](const Work& work) {
    const int device = program.chunks[index(work.chunk)].device;
    std::optional<int> peer;
    if (work.channel) {
      const Channel& channel = program.channels[index(*work.channel)];
      const int other = channel.from == work.chunk ? channel.to : channel.from;
      peer = program.chunks[index(other)].device;
    }
    const Instruction& it = work.instruction;
    return Place{device, peer, it.op, it.stage, it.microbatch};
  };
  std::set<std::pair<int, int>> messages;  // channel and microbatch
  for (const int work : path.works) {
    const Work& item = program.work[index(work)];
    places.insert(place(item));
    if (item.channel) messages.emplace(*item.channel, item.instruction.microbatch);
  }
  for (const Work& work : program.work) {
    if (!work.channel) continue;
    if (messages.contains({*work.channel, work.instruction.microbatch})) places.insert(place(work));
  }
  std::vector<char> marks;
  for (const Span& span : timeline.spans) {
    const Instruction& it = span.instruction;
    const bool marked = places.contains({span.device, span.peer, it.op, it.stage, it.microbatch});
    marks.push_back(span.iteration == 0 && marked ? 1 : 0);
  }
  return marks;
}

std::int64_t latencies_in_step(const Program& program, const Costs& costs) {
  Costs slower = costs;
  for (ChannelCosts& channel : slower.channels) channel.latency += Duration{1};
  const CompiledProgram compiled(program);
  return (compiled.step(slower) - compiled.step(costs)).count();
}

}  // namespace stagecraft
