// Depth-first enumeration of the layouts that path bounds do not rule out.
//
// The bound by paths (planner/relaxations/path_bound.hpp) sees a mean over layouts: if memory is
// short, the mean of one that recomputes too little and one that recomputes too much. So a gap
// remains that no weights close. But each of its sums also bounds, for the first stages of a
// layout, the time or memory of all stages that follow. The enumeration goes stage by stage and
// prunes a partial layout once one sum exceeds its limit: time by the sum that the bound rests on
// and by single paths, memory by single peaks (branch and bound over Lagrangian values; Handler and
// Zang 1980). A complete layout is timed; if it takes too long, its critical path becomes one more
// sum for pruning.

#pragma once

#include <functional>

#include "planner/relaxations/path_bound.hpp"

namespace stagecraft {

class PathWalk {
 public:
  /// The bound must be raised before, must not change, and must outlive the walk.
  explicit PathWalk(PathBound& bound);

  /// Visits the layouts of at most `limit` (at most the limit of the bound), with their own
  /// recomputation; `visit` returns the limit from then on. Returns false if the effort ran out.
  /// Paths learned in one walk prune the next one, too.
  bool walk(Time limit, Effort& effort, const std::function<Time(const Layout&)>& visit);

 private:
  /// A sum for pruning, and its value over the first stages of the current layout.
  struct Sum {
    LayoutSum sum;
    StageChoices::Onward onward;
    std::vector<double> so_far;  ///< [stages]
    double most = 0;             ///< largest value of a layout within the limit
    std::int64_t ruled_out = 0;
  };
  void add(LayoutSum sum);
  void learn(const PassCounts& path, Effort& effort);
  void set_limit(Time limit);
  bool goes_on(int stage, std::size_t place, Effort& effort);
  void choose(int stage, Effort& effort);
  void end(Effort& effort);

  PathBound& bound_;
  const StageChoices& choices_;
  Time limit_ = 0;
  std::vector<Sum> sums_;
  std::size_t most_sums_ = 0;
  std::int64_t too_long_ = 0;        ///< timed layouts that were above the limit
  std::vector<std::size_t> chosen_;  ///< places of the choices, stage by stage
  Layout layout_;
  const std::function<Time(const Layout&)>* visit_ = nullptr;
  bool complete_ = true;
};

}  // namespace stagecraft
