#include "simulator/analyses/critical_path.hpp"

#include <algorithm>
#include <cassert>
#include <set>
#include <tuple>

#include "profiles/index.hpp"
#include "simulator/analyses/critical_runs.hpp"
#include "simulator/engines/repeats.hpp"

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

namespace {

/// What a link is, but for its microbatch.
auto kind_of(const Program& program, const Link& link) {
  const Work& work = program.work[index(link.work)];
  return std::tuple(work.chunk, work.instruction.op, work.channel, link.time);
}

/// The part of the chain that comes again and again where the program leaves microbatches out:
/// within what repeats, the shortest whose end is where its beginning is, a period of microbatches
/// later. From the same place the chain goes the same way.
std::optional<RepeatedLinks> repeated_links(const Program& program, const std::vector<Link>& links,
                                            const std::vector<Duration>& ends) {
  const LeftOut& left_out = *program.left_out;
  const RepeatFinder finder(program);
  const Repeat repeat = finder.get(ends);
  const int from = finder.repeats_from(ends, repeat) + left_out.in_flight;
  const auto microbatch = [&](std::size_t i) {
    return program.work[index(links[i].work)].instruction.microbatch;
  };
  const auto inside = [&](std::size_t i) {
    const Op op = program.work[index(links[i].work)].instruction.op;
    const bool of_microbatch = !is_collective(op) && !is_about_norm(op) && op != Op::update;
    return of_microbatch && microbatch(i) >= from && microbatch(i) < left_out.end;
  };
  for (std::size_t end = links.size(); end-- > 0;) {
    if (!inside(end)) continue;
    for (std::size_t first = end; first-- > 0;) {
      if (!inside(first)) break;
      const int by = microbatch(end) - microbatch(first);
      if (by <= 0 || by % repeat.microbatches != 0 || left_out.microbatches % by != 0 ||
          kind_of(program, links[first]) != kind_of(program, links[end])) {
        continue;
      }
      return RepeatedLinks{first, end, by, left_out.microbatches / by};
    }
    return {};
  }
  return {};
}

}  // namespace

CriticalPath critical_path(const Program& program, const Costs& costs) {
  const TimingGraph graph(program, costs);
  const Walk walk(program, graph);
  const std::vector<Link> links = walk.path();
  std::optional<RepeatedLinks> repeated;
  if (program.left_out) {
    repeated = repeated_links(program, links, graph.ends());
    if (!repeated) require_whole(program, "the longest chain of work");
  }
  CriticalPath path{
      .runs = critical_runs(program, graph, links, repeated), .works = {}, .slack = walk.slack()};
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
