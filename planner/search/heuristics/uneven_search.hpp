// Local search for layouts whose stages have different numbers of replicas: on more devices than
// can be enumerated (planner/search/enumerate/chains.hpp), or when the enumeration gave up.
//
// It starts with chains whose numbers of replicas minimise the longest stage
// (planner/search/heuristics/uneven_chains.hpp). Under schedules that `StageBounds` does not
// support, it starts with balanced layouts whose replicas are as equal as possible. Then layers and
// replicas move between stages while the fast clock reports a shorter step.

#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "planner/search/evaluator.hpp"

namespace stagecraft {

/// Whether the search starts from balanced layouts of this setting: it is searched by columns, has
/// no chain bounds, and has not too many devices.
bool has_uneven_layouts(const Space& space, const Setting& setting);

class UnevenSearch {
 public:
  UnevenSearch(const Space& space, Judge& judge) : space_(space), judge_(judge) {}

  /// Adds chains of the setting that may be faster than the judge's cutoff, on all devices and on
  /// slightly fewer: for every number of stages, those found during bisection. Uses at most half of
  /// the effort that is left.
  void add(const Setting& setting);
  /// Adds balanced layouts of the setting, on every number of pipeline devices.
  void add_balanced(const Setting& setting);
  /// Keeps only the best `most` layouts.
  void keep_best(std::size_t most);
  /// Local search on the layouts, fastest first; the judge simulates those that get faster than its
  /// cutoff. Ends when the effort is spent or `stops` returns true.
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
