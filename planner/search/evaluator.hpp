// The evaluator: chooses recomputation for a layout of the search, times it by the fast clock, and
// simulates it if it could beat the incumbent.

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
  /// A judge for a part of the work, on a space of its own. It starts with the incumbents of
  /// `whole`, and may use this much effort.
  Judge(const Judge& whole, const Space& space, std::int64_t effort)
      : space_(space),
        control_(whole.control_),
        board_(whole.board_),
        effort_{.left = effort, .stop = control_.stop},
        given_(effort) {}
  /// Merges the incumbents and counts of such a part.
  void take(Judge part);

  /// Cutoff: slower plans are discarded. `never` (infinite) until a plan is known.
  Time limit() const;
  /// Simulates the minimal choices of recomputation that may fit and that the fast clock does not
  /// rule out, starting with the layout's own. Returns false if some choices were left out.
  bool consider(FastClock& clock, const Setting& setting, Layout layout, Time limit);
  /// Simulates the layout with its own recomputation, if that may fit and the fast clock does not
  /// rule it out. Returns false if it is unknown whether it fits.
  bool consider_as_it_is(FastClock& clock, const Setting& setting, const Layout& layout,
                         Time limit);
  /// Simulates at most two choices of recomputation: the layout's own if it may fit, and the one
  /// that takes the first choice that may fit on each device, if the clock says that it is faster.
  /// Returns, per pipeline device, the bytes beyond its limit if the simulation shows that the
  /// layout's own choice (or the other one, if its own may not fit) does not fit after all; else
  /// empty.
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
  std::int64_t given_ = 0;  ///< effort that a part began with
};

/// The effort of each of `tasks` tasks side by side: left / parts, but at most so much that an
/// eighth of `left` remains after all of them.
std::int64_t share_of_each(std::int64_t left, std::int64_t parts, std::size_t tasks);

/// Calls task(space, judge, i) for every i in [0, tasks), each with this effort and with a judge
/// and a space of its own. Results are merged in the order of i, whichever finished first.
using JudgedTask = std::function<void(const Space& space, Judge& judge, std::size_t task)>;
void judge_side_by_side(SpaceWorkers& workers, Judge& judge, std::size_t tasks, std::int64_t effort,
                        const JudgedTask& task);

}  // namespace stagecraft
