// Walks through the layouts of a branch of the search among plans of equal columns
// (planner/search/column_search.hpp) whose layers are no blocks, as far as bounds leave any.

#pragma once

#include "planner/search/column_work.hpp"
#include "planner/search/evaluator.hpp"

namespace stagecraft {

/// The space and the branch outlive it.
class ColumnWalk {
 public:
  ColumnWalk(const Space& space, Judge& judge, ColumnBranch& branch)
      : space_(space), judge_(judge), branch_(branch), clock_(space, branch.setting) {}

  /// Raises the bound: by paths, in so many rounds, then by walks; where there are too many layers
  /// for paths, by a walk through few layouts. With half of the judge's effort at most for paths.
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
