// Where stages can begin when none may work longer than some time, and what is before them at
// least.
//
// A state is a number of stages behind, a number of devices before, and the operator at which the
// stages behind begin. For a time T, some operators are too far from the front for the devices
// before, or too far from the end for those behind: a window is left. What is before a state is
// bounded by its slowest stage and by its sum, each found by itself, with the least that
// recomputing enough could take (`AcesoStageCosts::least_recompute`).

#pragma once

#include <limits>
#include <stop_token>
#include <vector>

#include "planner/baselines/aceso/stage_costs.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

/// Operators [first, end) at which the stages behind may begin.
struct AcesoWindow {
  int first = 0;
  int end = 0;
};

/// Bounds in nanoseconds for the stages before a state.
struct AcesoBefore {
  double slowest = std::numeric_limits<double>::infinity();
  double sum = std::numeric_limits<double>::infinity();
};

class AcesoBounds {
 public:
  AcesoBounds(const AcesoStageCosts& costs, int devices, int most_stages);

  /// No plan's slowest stage takes less; infinite if there is no plan.
  double least_time() const { return least_time_; }
  /// Windows and bounds for stages of at most `time` each; false if there is no plan.
  bool prepare(double time, const std::stop_token& stop);
  const AcesoWindow& window(int behind, int devices) const {
    return windows_[index(behind)][index(devices)];
  }
  const AcesoBefore& before(int behind, int devices, int operation) const {
    return before_[index(behind)][index(devices)][index(operation - window(behind, devices).first)];
  }

 private:
  using Reach = std::vector<std::vector<int>>;  ///< by stages behind, then by devices before
  Reach furthest(double time) const;
  Reach nearest(double time) const;
  double find_least_time() const;
  void bound_after(int behind, int devices, int option, double time);

  const AcesoStageCosts& costs_;
  int operators_, devices_, most_stages_;
  double least_time_ = 0;
  std::vector<std::vector<AcesoWindow>> windows_;
  std::vector<std::vector<std::vector<AcesoBefore>>> before_;
};

}  // namespace stagecraft
