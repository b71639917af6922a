// The maximum cycle mean of the graph whose arcs say "starts no earlier than `delay` after, `later`
// iterations before" (Baccelli, Cohen, Olsder and Quadrat, Synchronization and Linearity, 1992).
//
// A guess p/q is too low if some cycle has delays · q - later · p > 0. Relaxation finds such a
// cycle if there is one: what each node was last raised by leads around it. Its own mean is the
// next guess (Dinkelbach 1967), until no cycle is left. Whole numbers throughout. One pass over the
// works in causal order relaxes all of an iteration, so that passes only count arcs into the next
// one.

#include <algorithm>
#include <optional>

#include "profiles/index.hpp"
#include "profiles/wide.hpp"
#include "simulator/analyses/critical_runs.hpp"
#include "simulator/analyses/lower_bounds.hpp"
#include "simulator/engines/causal_order.hpp"
#include "simulator/engines/repeats.hpp"

namespace stagecraft {

namespace {

constexpr int no_place = -1;

/// Places are positions in the causal order.
struct CycleArc {
  int from = 0;
  int work = 0;  ///< of all those of its place, the one that is waited for
  std::int64_t delay = 0;
  int later = 0;
};

class CycleFinder {
 public:
  CycleFinder(const Program& program, const Costs& costs)
      : program_(program), costs_(costs), graph_(program, costs) {
    const CausalOrder order = causal_order(program);
    place_.assign(program.work.size(), no_place);
    arcs_.resize(order.size());
    for (std::size_t e = 0; e < order.size(); ++e) {
      for (const int work : order.event(e)) place_[index(work)] = static_cast<int>(e);
    }
    for (std::size_t e = 0; e < order.size(); ++e) {
      for (const TimingGraph::Arc& arc : graph_.arcs_into(graph_.event_of(order.event(e)[0]))) {
        add(arc.from, order.event(e)[0], arc.delay, 0);
      }
    }
    close_lanes();
    for (const CarriedWait& wait : program.carried) {
      add(wait.on, wait.work, graph_.time(wait.on), 1);
    }
  }

  CycleMean find() {
    CycleMean mean;
    while (const auto cycle = cycle_above(mean)) {
      mean.time = Duration{0};
      mean.iterations = 0;
      std::vector<CriticalLink> links;
      for (const CycleArc& arc : *cycle) {
        mean.time += Duration{arc.delay};
        mean.iterations += arc.later;
        links.push_back({arc.work, Duration{arc.delay}});
      }
      mean.runs = critical_runs(program_, graph_, links);
    }
    return mean;
  }

 private:
  void add(int from, int to, Duration delay, int later) {
    arcs_[index(place_[index(to)])].push_back({place_[index(from)], from, delay.count(), later});
  }

  /// The first on a lane comes after the last, an iteration later.
  void close_lanes() {
    std::vector<std::vector<int>> channels(program_.channels.size());
    for (const std::vector<int>& order : program_.order) {
      std::vector<int> compute, collective;
      for (const int i : order) {
        const Work& work = program_.work[index(i)];
        switch (work.lane) {
          case Lane::compute: compute.push_back(i); break;
          case Lane::send: channels[index(*work.channel)].push_back(i); break;
          case Lane::receive: break;
          case Lane::collective: collective.push_back(i); break;
        }
      }
      close(compute);
      close(collective);
    }
    for (const std::vector<int>& sends : channels) close(sends);
  }

  void close(const std::vector<int>& lane) {
    if (lane.empty()) return;
    const Work& last = program_.work[index(lane.back())];
    const Duration delay = last.lane == Lane::send ? costs_.channels[index(*last.channel)].occupancy
                                                   : graph_.time(lane.back());
    add(lane.back(), lane.front(), delay, 1);
  }

  /// Some cycle with a greater mean, in the order of time.
  std::optional<std::vector<CycleArc>> cycle_above(const CycleMean& mean) const {
    std::vector<Wide> height(arcs_.size(), 0);
    std::vector<const CycleArc*> raised_by(arcs_.size(), nullptr);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t to = 0; to < arcs_.size(); ++to) {
        for (const CycleArc& arc : arcs_[to]) {
          const Wide over = static_cast<Wide>(arc.delay) * mean.iterations -
                            static_cast<Wide>(mean.time.count()) * arc.later;
          if (height[index(arc.from)] + over <= height[to]) continue;
          height[to] = height[index(arc.from)] + over;
          raised_by[to] = &arc;
          changed = true;
        }
      }
      if (!changed) break;
      if (auto cycle = cycle_in(raised_by)) return cycle;
    }
    return {};
  }

  static std::optional<std::vector<CycleArc>> cycle_in(
      const std::vector<const CycleArc*>& raised_by) {
    std::vector<int> seen(raised_by.size(), no_place);  // by the walk from which place
    for (int start = 0; start < static_cast<int>(raised_by.size()); ++start) {
      int place = start;
      while (seen[index(place)] == no_place && raised_by[index(place)] != nullptr) {
        seen[index(place)] = start;
        place = raised_by[index(place)]->from;
      }
      if (raised_by[index(place)] == nullptr || seen[index(place)] != start) continue;
      std::vector<CycleArc> cycle;
      const int first = place;
      do {
        cycle.push_back(*raised_by[index(place)]);
        place = cycle.back().from;
      } while (place != first);
      std::reverse(cycle.begin(), cycle.end());
      return cycle;
    }
    return {};
  }

  const Program& program_;
  const Costs& costs_;
  TimingGraph graph_;
  std::vector<int> place_;                   // of each work
  std::vector<std::vector<CycleArc>> arcs_;  // into each place
};

}  // namespace

CycleMean cycle_mean(const Program& program, const Costs& costs) {
  require_whole(program, "the slowest cycle of waits");
  return CycleFinder(program, costs).find();
}

}  // namespace stagecraft
