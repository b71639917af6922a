#include "executor/transports/mpi/progress.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <utility>

#include "profiles/error.hpp"

namespace stagecraft::mpi {

namespace {

using namespace std::chrono_literals;

/// The longer nothing happens, the longer the naps.
constexpr std::chrono::microseconds shortest_nap = 20us;
constexpr std::chrono::microseconds longest_nap = 200us;
constexpr std::chrono::microseconds longest_doze = 5ms;

}  // namespace

void check(int code, std::string_view doing) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> words{};
  int length = 0;
  MPI_Error_string(code, words.data(), &length);
  throw Error(ErrorKind::execution,
              concat("MPI cannot ", doing, ": ",
                     std::string_view(words.data(), static_cast<std::size_t>(length))));
}

Progress::Progress(const Task& start, std::function<void(const std::string&)> failed)
    : failed_(std::move(failed)) {
  std::promise<void> started;
  thread_ = std::thread([this, &start, &started] {
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);  // else each nap may be 50 microseconds longer
    try {
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

long Progress::watch(MPI_Request request, Done done) {
  requests_.push_back(request);
  done_.push_back(std::move(done));
  numbers_.push_back(next_number_);
  return next_number_++;
}

void Progress::cancel(long number) {
  const auto found = std::ranges::find(numbers_, number);
  if (found == numbers_.end()) return;
  const auto i = found - numbers_.begin();
  MPI_Request& request = requests_[static_cast<std::size_t>(i)];
  check(MPI_Cancel(&request), "cancel a receive");
  check(MPI_Wait(&request, MPI_STATUS_IGNORE), "cancel a receive");
  requests_.erase(requests_.begin() + i);
  done_.erase(done_.begin() + i);
  numbers_.erase(found);
}

void Progress::work() {
  while (!ended_) {
    try {
      const bool ran = run_tasks();
      if (ended_) return;
      const bool moved = test();
      nap_ = ran || moved ? shortest_nap : 2 * nap_;
      if (!ran && !moved) rest();
    } catch (const std::exception& error) {
      fail(error.what());
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
      fail(error.what());
    }
  }
  return !tasks.empty();
}

bool Progress::test() {
  if (requests_.empty()) return false;
  completed_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                completed_.data(), statuses_.data());
  if (code != MPI_ERR_IN_STATUS) check(code, "test what is under way");
  if (count == MPI_UNDEFINED || count == 0) return false;
  std::vector<std::pair<Done, std::pair<MPI_Status, int>>> ready;
  for (int i = 0; i < count; ++i) {
    const MPI_Status& status = statuses_[static_cast<std::size_t>(i)];
    const auto place = static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)]);
    const int error = code == MPI_ERR_IN_STATUS ? status.MPI_ERROR : MPI_SUCCESS;
    ready.push_back({std::move(done_[place]), {status, error}});
    numbers_[place] = -1;
  }
  for (std::size_t i = 0; i < numbers_.size();) {  // in order: what was issued first is told first
    if (numbers_[i] >= 0) {
      ++i;
      continue;
    }
    const auto at = static_cast<std::ptrdiff_t>(i);
    requests_.erase(requests_.begin() + at);
    done_.erase(done_.begin() + at);
    numbers_.erase(numbers_.begin() + at);
  }
  for (const auto& [done, how] : ready) done(how.first, how.second);
  return true;
}

void Progress::rest() {
  if (pace_ == Pace::polls) return std::this_thread::yield();
  nap_ = std::min(nap_, pace_ == Pace::dozes ? longest_doze : longest_nap);
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, nap_, [&] { return !tasks_.empty(); });
}

}  // namespace stagecraft::mpi
