#include "tools/launch/interrupt.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "profiles/abandonment.hpp"
#include "profiles/error.hpp"
#include "tools/launch/lifeline.hpp"

namespace stagecraft {
namespace {

constexpr std::chrono::milliseconds grace{500};
constexpr std::chrono::milliseconds longest_end{800};

/// The last two are what mpirun passes on to ranks, for the first two.
constexpr std::array handled{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

/// The one thing that a signal handler may touch.
std::atomic<int> received = 0, first_received = 0;
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void count_signal(int number) {
  int none = 0;
  const bool is_passed_on = number == SIGUSR1 || number == SIGUSR2;
  const int meant = number == SIGUSR1 ? SIGINT : number == SIGUSR2 ? SIGTERM : number;
  const bool is_first = first_received.compare_exchange_strong(none, meant);
  // What is passed on is repeated, lest it be lost; a person's second signal is passed on by none.
  if (is_first || !is_passed_on) ++received;
}

}  // namespace

std::string words_of_signal(int signal) {
  return concat("signal ", signal, " (", strsignal(signal), ")");
}

// Libraries start threads before main (OpenBLAS does), and any of them may be given the signal, so
// that blocking it here would not keep it away. A handler counts; one thread looks at the count.
Interrupt::Interrupt(std::optional<std::chrono::nanoseconds> limit) {
  received = 0;
  first_received = 0;
  struct sigaction action {};
  action.sa_handler = count_signal;
  action.sa_flags = SA_RESTART;
  const std::size_t count = started_by_launcher() ? handled.size() : 2;
  for (std::size_t i = 0; i < handled.size(); ++i) {
    sigaction(handled[i], nullptr, &before_[i]);
    // Who started us may want signals ignored (nohup).
    if (i < count && before_[i].sa_handler != SIG_IGN) sigaction(handled[i], &action, nullptr);
  }
  watcher_ = std::thread([this, limit] { watch(limit); });
}

Interrupt::~Interrupt() {
  done_ = true;
  watcher_.join();
  for (std::size_t i = 0; i < handled.size(); ++i) sigaction(handled[i], &before_[i], nullptr);
  // A signal may still be on its way through mpirun, and the rank has yet to take leave.
  if (started_by_launcher()) {
    for (const int passed_on : {SIGUSR1, SIGUSR2}) std::signal(passed_on, SIG_IGN);
  }
  set_abandoned(false);
}

std::string Interrupt::words() const {
  return concat("interrupted by ", words_of_signal(signal_));
}

void Interrupt::end_at_once(std::string sentence) {
  const std::lock_guard lock(mutex_);
  at_once_ = std::move(sentence);
}

void Interrupt::end_in_order() {
  const std::lock_guard lock(mutex_);
  at_once_.reset();
}

void Interrupt::before_end(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  before_end_.push_back(std::move(task));
}

void Interrupt::end_late(std::function<int()> task) {
  const std::lock_guard lock(mutex_);
  end_late_ = std::move(task);
}

void Interrupt::end(int signal, const std::string& sentence) {
  for (const auto& task : before_end_) task();
  if (!sentence.empty()) {
    const std::string line =
        concat("error: interrupted by ", words_of_signal(signal), sentence, "\n");
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  }
  _exit(128 + signal);
}

void Interrupt::watch(std::optional<std::chrono::nanoseconds> limit) {
  constexpr std::chrono::milliseconds pause{20};
  const auto begin = std::chrono::steady_clock::now();
  auto stopped = std::chrono::steady_clock::time_point::max();
  // Not beyond the end of the limit, however short that is.
  const auto sleep = [&] {
    std::chrono::nanoseconds rest = pause;
    if (limit && !source_.stop_requested())
      rest = std::min(rest, *limit - (std::chrono::steady_clock::now() - begin));
    std::this_thread::sleep_for(rest);
  };
  for (; !done_; sleep()) {
    const int count = received;
    signal_ = first_received.load();
    if (count > 0) {
      const std::lock_guard lock(mutex_);
      if (at_once_) end(signal_, *at_once_);
      if (count > 1) end(signal_, " twice; ended at once");
    }
    const auto now = std::chrono::steady_clock::now();
    if (count > 0 || (limit && now - begin >= *limit)) {
      if (source_.request_stop()) stopped = now;
    }
    if (now > stopped && now - stopped >= grace && late_source_.request_stop()) {
      set_abandoned(true);
    }
    if (now <= stopped || now - stopped < longest_end) continue;
    const std::lock_guard lock(mutex_);
    if (!end_late_) continue;
    for (const auto& task : before_end_) task();
    _exit(end_late_());
  }
}

}  // namespace stagecraft
