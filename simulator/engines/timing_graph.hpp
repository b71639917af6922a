// The graph of a program's dependencies with their delays, on which `critical_path` works. Internal
// to the simulator.

#pragma once

#include <optional>
#include <vector>

#include "simulator/engines/compiled.hpp"

namespace stagecraft {

/// Works that start and end together form one *event*: a single work, all members of a collective,
/// or a fused pair.
class TimingGraph {
 public:
  /// The graph of one iteration. Keeps references to both arguments.
  TimingGraph(const Program& program, const Costs& costs);

  /// A work starts no earlier than `delay` after `from` has started.
  struct Arc {
    int from = 0;
    Duration delay{0};
  };

  int works() const { return static_cast<int>(program_.work.size()); }
  Duration start(int work) const { return times_.start[static_cast<std::size_t>(work)]; }
  Duration end(int work) const { return times_.end[static_cast<std::size_t>(work)]; }
  const std::vector<Duration>& ends() const { return times_.end; }
  Duration time(int work) const { return end(work) - start(work); }
  /// The latest end.
  Duration step() const { return step_; }

  /// The event of a work; an event is identified by the number of one of its works.
  int event_of(int work) const { return event_of_[static_cast<std::size_t>(work)]; }
  /// All dependencies of an event's members. At least one arc is tight, unless the event starts at
  /// 0.
  std::vector<Arc> arcs_into(int event) const;
  /// The send of a receive; nothing for other works.
  std::optional<int> send_of(int work) const;

 private:
  void find_lane_predecessors();
  void join_collectives();
  void join_fused_pairs();
  void join(int event, int work);
  void add_arcs(std::vector<Arc>& arcs, int work) const;

  const Program& program_;
  const Costs& costs_;
  WorkTimes times_;
  Duration step_{0};
  std::vector<int> before_;    // per work: the previous work on its lane or channel
  std::vector<int> event_of_;  // per work
  std::vector<int> next_;      // per work: the next work of its event
};

}  // namespace stagecraft
