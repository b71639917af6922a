// Layouts whose stages have replicas of their own, on more devices than all of them can be walked
// through (planner/search/enumerate/chains.hpp), or where a walk ends before it has come to the
// best.
//
// They begin with chains that have the right numbers of replicas for their longest stage
// (planner/search/heuristics/uneven_chains.hpp); under schedules that `StageBounds` does not know,
// with several stages per device or with backwards that are split, with balanced layouts of
// replicas as equal as may be. Layers and replicas then change places as long as the fast clock
// likes it better.

#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "planner/search/evaluator.hpp"

namespace stagecraft {

/// Whether such layouts are looked for that begin with balanced ones: where columns are searched
/// that are no chains, on not too many devices.
bool has_uneven_layouts(const Space& space, const Setting& setting);

class UnevenSearch {
 public:
  UnevenSearch(const Space& space, Judge& judge) : space_(space), judge_(judge) {}

  /// Finds chains of the setting that may be faster than the judge's limit, on all devices and on a
  /// few less: for every number of stages what bisection comes across. With half of the effort that
  /// is left at most.
  void add(const Setting& setting);
  /// Begins with balanced layouts of the setting, on every number of pipeline devices.
  void add_balanced(const Setting& setting);
  /// Forgets all but the best of what was found.
  void keep_best(std::size_t most);
  /// Moves layers and replicas of all that were found, those first which the clock likes best, and
  /// has the judge simulate what gets better than his limit. Until the effort is spent or it
  /// `stops`.
  void improve(const std::function<bool()>& stops);

 private:
  struct Found {
    FastClock* clock = nullptr;
    const Setting* setting = nullptr;
    Layout layout;
    Time step = never;
  };

  std::vector<Layout> chains_on(const StageBounds& bounds, const Setting& setting, FastClock& clock,
                                int devices);
  void keep(const Setting& setting, FastClock& clock, Layout layout);
  void anneal_best(const std::function<bool()>& stops);
  void change(Found& found, Layout layout);
  void sort();

  const Space& space_;
  Judge& judge_;
  std::deque<FastClock> clocks_;
  std::vector<Found> found_;
};

}  // namespace stagecraft
