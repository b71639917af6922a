// The last word on a layout of the search: which stages must recompute, is the fast clock good
// enough, what does the simulator say.

#pragma once

#include <functional>
#include <set>
#include <span>
#include <vector>

#include "planner/problem/incumbents.hpp"
#include "planner/relaxations/stage_bounds.hpp"
#include "planner/space/workers.hpp"

namespace stagecraft {

class Judge {
 public:
  Judge(const Space& space, const SearchControl& control)
      : space_(space), control_(control), board_(control.top), effort_{.stop = control.stop} {}
  /// One for a part of the work, on a space of its own: it knows what the whole knows by now, and
  /// has so much effort.
  Judge(const Judge& whole, const Space& space, std::int64_t effort)
      : space_(space),
        control_(whole.control_),
        board_(whole.board_),
        effort_{.left = effort, .stop = control_.stop},
        given_(effort) {}
  /// What such a one has found and done.
  void take(Judge part);

  /// Cutoff: slower plans are discarded. `never` (infinite) until a plan is known.
  Time limit() const;
  /// Simulates the layout's least recomputations that may fit and that the fast clock does not
  /// rule out; the layout's own choice of recomputation is where it starts. False if it had to
  /// give up on some.
  bool consider(FastClock& clock, const Setting& setting, Layout layout, Time limit);
  /// Simulates the layout with its own recomputation, if that may fit and the fast clock does not
  /// rule it out. False if it is not known whether it fits.
  bool consider_as_it_is(FastClock& clock, const Setting& setting, const Layout& layout,
                         Time limit);
  /// Simulates two such ways at most: the layout's own if that may fit, and on each device the
  /// first that may, if that is faster by the clock. Where the clock was too kind to its own way
  /// (or to the other one, if there is no own): by how many bytes each pipeline device is over its
  /// limit.
  std::vector<Bytes> consider_once(FastClock& clock, const Setting& setting, Layout layout);
  void add(const Candidate& candidate);

  Leaderboard& board() { return board_; }
  std::int64_t simulated() const { return simulated_; }
  std::int64_t pruned() const { return pruned_; }
  void count_pruned() { ++pruned_; }
  Effort& effort() { return effort_; }
  const Leaderboard& board() const { return board_; }
  bool is_spent() const { return effort_.is_spent(); }
  bool stopped() const { return control_.stop.stop_requested(); }

 private:
  struct Case;
  struct Ways;
  Ways ways_of(Case& what, int pipeline_device);
  bool choose_ways(Case& what);
  bool choose_for_devices(Case& what, std::span<const Ways> ways);
  bool is_seen_not_to_fit(Case& what, const Plan& plan);
  bool simulate(Case& what);

  const Space& space_;
  const SearchControl& control_;
  Leaderboard board_;
  std::int64_t simulated_ = 0;
  std::int64_t pruned_ = 0;
  Effort effort_;
  std::int64_t given_ = 0;  ///< of the effort, for a part
};

/// For each of so many tasks side by side: one of so many parts of what is left, but so that
/// together they leave an eighth.
std::int64_t share_of_each(std::int64_t left, std::int64_t parts, std::size_t tasks);

/// task(space, judge, i) for every i in [0, tasks), each with so much effort, and with a judge and
/// a space to itself; what they find is taken in order, whoever came first.
using JudgedTask = std::function<void(const Space& space, Judge& judge, std::size_t task)>;
void judge_side_by_side(SpaceWorkers& workers, Judge& judge, std::size_t tasks, std::int64_t effort,
                        const JudgedTask& task);

}  // namespace stagecraft
