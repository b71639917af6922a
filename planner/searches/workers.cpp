#include "planner/searches/workers.hpp"

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

}  // namespace stagecraft
