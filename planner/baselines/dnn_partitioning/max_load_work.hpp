// How much the devices of a max-load problem can do.

#pragma once

#include <algorithm>

#include "planner/baselines/dnn_partitioning/max_load.hpp"

namespace stagecraft {

/// Loads summed in another order differ by less, as a part of them.
inline constexpr double load_rounding = 1e-12;

/// Work in accelerator time, and how much of it a CPU does in the same time, at most. No split
/// loads all devices less than the time that all of them together need for the work.
class MaxLoadWork {
 public:
  /// Still a number when multiplied with none.
  static constexpr double infinite = 1e300;

  explicit MaxLoadWork(const MaxLoadProblem& problem)
      : has_accelerators_(problem.accelerators > 0) {
    if (!has_accelerators_ || problem.processors == 0) {
      share_of_processor_ = 1;
      return;
    }
    for (const MaxLoadNode& node : problem.nodes) {
      const double work = of(node);
      if (work <= 0) continue;
      const double share = node.processor > 0 ? work / node.processor : infinite;
      share_of_processor_ = std::max(share_of_processor_, share);
    }
  }

  double of(const MaxLoadNode& node) const {
    if (!has_accelerators_) return node.processor;
    return node.accelerated ? node.accelerator : 0;
  }
  double capacity(int accelerators, int processors) const {
    return accelerators + processors * share_of_processor_;
  }
  /// Minimum capacity that one more device takes.
  double least_share() const { return std::min(1.0, share_of_processor_); }

 private:
  bool has_accelerators_;
  double share_of_processor_ = 0;
};

}  // namespace stagecraft
