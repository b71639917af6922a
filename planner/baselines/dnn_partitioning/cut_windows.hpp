// The possible range of each cut of a split if all devices are loaded less than a limit, and bounds
// on its cost, from levels of work.

#pragma once

#include <optional>
#include <vector>

#include "planner/baselines/dnn_partitioning/cut_finder.hpp"
#include "planner/baselines/dnn_partitioning/cut_levels.hpp"
#include "planner/baselines/dnn_partitioning/max_load.hpp"

namespace stagecraft {

class CutWindows {
 public:
  CutWindows(const MaxLoadProblem& problem, const CutLevels& levels, double load);

  /// What the cut behind so many devices must meet; none if no such cut is possible. Tensors are
  /// free where they may have nodes both before the part and behind it, on that side of the cut.
  std::optional<CutLimits> limits(int before) const;

 private:
  struct Window {
    double least = 0, most = 0;  ///< work before the cut
  };

  std::optional<Window> window(int before) const;
  std::vector<bool> passing(const Window& from, const Window& to) const;
  double above(int before, const Window& here) const;
  double below(int before, const Window& here) const;

  const MaxLoadProblem& problem_;
  const CutLevels& levels_;
  double load_;
  std::vector<std::vector<double>> reach_, reach_back_;
};

}  // namespace stagecraft
