// Tasks side by side on several threads. What comes of them must not depend on how many there are:
// tasks share nothing that changes, and whoever waits for them uses their results in order.

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "planner/space/space.hpp"

namespace stagecraft {

class Workers {
 public:
  /// 0: as many as the machine has cores.
  explicit Workers(int threads);

  int count() const { return threads_; }

  /// task(worker, i) for every i in [0, tasks), with worker in [0, count()); no two at a time have
  /// the same worker, and 0 is the calling thread. Returns when all are done; what the task of the
  /// lowest number threw is thrown again.
  void run(int tasks, const std::function<void(int worker, int task)>& task) const;

 private:
  int threads_ = 1;
};

/// Workers that each have the plans of a problem to themselves: a space makes its tables when they
/// are asked for.
class SpaceWorkers {
 public:
  /// The space outlives it; the calling thread works with it.
  SpaceWorkers(const Space& space, int threads);

  /// task(space, i) for every i in [0, tasks), as `Workers::run`.
  void run(int tasks, const std::function<void(const Space& space, int task)>& task);

 private:
  const Space& space_;
  Workers workers_;
  std::vector<std::unique_ptr<Space>> others_;  ///< of each worker but the first
};

}  // namespace stagecraft
