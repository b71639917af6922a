#include "planner/space/workers.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace stagecraft {

namespace {

int cores() {
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

}  // namespace

Workers::Workers(int threads) : threads_(threads > 0 ? threads : cores()) {}

void Workers::run(int tasks, const std::function<void(int worker, int task)>& task) const {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(tasks));
  std::atomic<int> next = 0;
  const auto work = [&](int worker) {
    for (int i = next++; i < tasks; i = next++) {
      try {
        task(worker, i);
      } catch (...) {
        errors[static_cast<std::size_t>(i)] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (int worker = 1; worker < std::min(threads_, tasks); ++worker)
      others.emplace_back(work, worker);
    work(0);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

SpaceWorkers::SpaceWorkers(const Space& space, int threads)
    : space_(space), workers_(threads), others_(static_cast<std::size_t>(workers_.count() - 1)) {}

void SpaceWorkers::run(int tasks, const std::function<void(const Space& space, int task)>& task) {
  workers_.run(tasks, [&](int worker, int i) {
    if (worker == 0) return task(space_, i);
    auto& own = others_[static_cast<std::size_t>(worker - 1)];
    if (own == nullptr) own = std::make_unique<Space>(space_.problem());
    task(*own, i);
  });
}

}  // namespace stagecraft
