// Runs tasks side by side on several threads. Results must not depend on the number of threads:
// tasks share no mutable state, and the caller uses their results in order.

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

  /// Calls task(worker, i) for every i in [0, tasks), with worker in [0, count()); concurrent tasks
  /// have different workers, and 0 is the calling thread. Returns when all are done. If tasks
  /// threw, the exception of the task with the lowest number is rethrown.
  void run(int tasks, const std::function<void(int worker, int task)>& task) const;

 private:
  int threads_ = 1;
};

/// Workers with a space each, since a space fills its tables on demand and cannot be shared.
class SpaceWorkers {
 public:
  /// The space must outlive this; the calling thread uses it.
  SpaceWorkers(const Space& space, int threads);

  /// Calls task(space, i) for every i in [0, tasks), as `Workers::run`.
  void run(int tasks, const std::function<void(const Space& space, int task)>& task);

 private:
  const Space& space_;
  Workers workers_;
  std::vector<std::unique_ptr<Space>> others_;  ///< one for each worker but the first
};

}  // namespace stagecraft
