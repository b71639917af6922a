// A walk through every layout that paths do not rule out.
//
// The bound by paths (planner/relaxations/path_bound.hpp) sees a mean over layouts: where memory is
// short, of one that recomputes too little and one that recomputes too much. So a gap remains that
// no weights close. But each of its sums also says of the first stages of a layout what all that
// follow take, or hold, at the least. Depth-first, stage by stage, a layout is left as soon as one
// of them is beyond its limit: time by the sum that the bound rests on and by single paths, memory
// by single moments (a branch and bound over Lagrangian values; Handler and Zang 1980). A layout
// that nothing rules out before its end is timed; if it takes too long, its critical path rules out
// others from then on.

#pragma once

#include <functional>

#include "planner/relaxations/path_bound.hpp"

namespace stagecraft {

class PathWalk {
 public:
  /// The bound, once raised, outlives it, and stays as it is.
  explicit PathWalk(PathBound& bound);

  /// Of the bound's layouts those of at most `limit`, which is not above that of the bound, go to
  /// `visit`, with their own recomputation; it gives the limit from then on. False if the effort
  /// was spent before all were looked at. What one walk learns the next one knows.
  bool walk(Time limit, Effort& effort, const std::function<Time(const Layout&)>& visit);

 private:
  /// One of the sums, and what the first stages of a layout have of it.
  struct Sum {
    LayoutSum sum;
    StageChoices::Onward onward;
    std::vector<double> so_far;  ///< [stages]
    double most = 0;             ///< of a layout within the limit
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
  std::int64_t too_long_ = 0;        ///< layouts that were timed
  std::vector<std::size_t> chosen_;  ///< places of choices, stage by stage
  Layout layout_;
  const std::function<Time(const Layout&)>* visit_ = nullptr;
  bool complete_ = true;
};

}  // namespace stagecraft
