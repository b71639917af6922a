#include "executor/transports/processes/progress.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <new>
#include <utility>

namespace stagecraft::processes {

namespace {

using namespace std::chrono_literals;

/// The longer nothing happens, the longer the naps.
constexpr std::chrono::microseconds shortest_nap = 20us;
constexpr std::chrono::microseconds longest_nap = 200us;
constexpr std::chrono::microseconds longest_doze = 5ms;

std::string words_of(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? "out of memory" : error.what();
}

}  // namespace

Progress::Progress(MakeCarrier make_carrier, const Task& start,
                   std::function<void(const std::string&)> failed,
                   std::function<void(int rank)> lost, Task round)
    : failed_(std::move(failed)), lost_(std::move(lost)), round_(std::move(round)) {
  std::promise<void> started;
  thread_ = std::thread([this, make_carrier, &start, &started] {
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);  // else each nap may be 50 microseconds longer
    try {
      carrier_ = make_carrier();
      start();
    } catch (...) {
      return started.set_exception(std::current_exception());
    }
    started.set_value();
    work();
  });
  try {
    started.get_future().get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

Progress::~Progress() {
  end([] {});
}

void Progress::soon(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void Progress::now(const Task& task) {
  std::promise<void> done;
  soon([&] {
    try {
      task();
      done.set_value();
    } catch (...) {
      done.set_exception(std::current_exception());
    }
  });
  done.get_future().get();
}

void Progress::set_pace(Pace pace) {
  soon([this, pace] { pace_ = pace; });
}

void Progress::end(const Task& last) {
  if (!thread_.joinable()) return;
  soon([this, last] {
    ended_ = true;
    last();
  });
  thread_.join();
}

void Progress::cancel(long number) {
  if (done_.erase(number) > 0) carrier_->cancel(number);
}

void Progress::work() {
  while (!ended_) {
    try {
      const bool ran = run_tasks();
      if (ended_) return;
      const bool moved = test();
      round_();
      nap_ = ran || moved ? shortest_nap : 2 * nap_;
      if (!ran && !moved) rest();
    } catch (const std::exception& error) {
      fail(words_of(error));
    }
  }
}

/// What fails once may do so for ever.
void Progress::fail(const std::string& why) {
  if (const auto failed = std::exchange(failed_, nullptr)) failed(why);
}

bool Progress::run_tasks() {
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const Task& task : tasks) {
    try {
      task();
    } catch (const std::exception& error) {
      fail(words_of(error));
    }
  }
  return !tasks.empty();
}

bool Progress::test() {
  if (done_.empty()) return false;
  const std::vector<Completion> completed = carrier_->test();
  for (const Completion& message : completed) {
    auto done = done_.extract(message.number);
    if (done.empty()) continue;
    if (!message.failure.empty()) {
      fail(message.failure);
      continue;
    }
    try {
      done.mapped()(message.bytes);
    } catch (const std::exception& error) {
      fail(words_of(error));
    }
  }
  for (const int rank : carrier_->take_lost()) lost_(rank);
  return !completed.empty();
}

void Progress::rest() {
  if (pace_ == Pace::polls) return std::this_thread::yield();
  nap_ = std::min(nap_, pace_ == Pace::dozes ? longest_doze : longest_nap);
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, nap_, [&] { return !tasks_.empty(); });
}

}  // namespace stagecraft::processes
