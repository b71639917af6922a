// Enumerates the layouts that bounds leave in a branch of the search among identical pipeline
// replicas (planner/search/column_search.hpp), for layers that are not blocks.

#pragma once

#include "planner/search/column_work.hpp"
#include "planner/search/evaluator.hpp"

namespace stagecraft {

/// The space and the branch must outlive it.
class ColumnWalk {
 public:
  ColumnWalk(const Space& space, Judge& judge, ColumnBranch& branch)
      : space_(space), judge_(judge), branch_(branch), clock_(space, branch.setting) {}

  /// Raises the bound by critical paths in this many rounds, with at most half of the judge's
  /// effort, then by enumeration. If there are too many layers for paths, enumerates if there are
  /// few layouts.
  void walk(int rounds);

 private:
  void walk_by_paths(const TimedOrder& order, int rounds);
  void walk_few();
  bool is_open() const { return branch_.least <= std::min(judge_.limit(), never - 1); }

  const Space& space_;
  Judge& judge_;
  ColumnBranch& branch_;
  FastClock clock_;
};

}  // namespace stagecraft
