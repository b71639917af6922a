#include "tools/launch/interrupt.hpp"

#include <unistd.h>

namespace stagecraft {
namespace {

constexpr int exit_interrupted = 130;
constexpr std::chrono::milliseconds grace{500};

constexpr std::array signals{SIGINT, SIGTERM};

/// The one thing that a signal handler may touch.
std::atomic<int> received = 0;
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void count_signal(int) {
  ++received;
}

}  // namespace

// Libraries start threads before main (OpenBLAS does), and any of them may be given the signal, so
// that blocking it here would not keep it away. A handler counts; one thread looks at the count.
Interrupt::Interrupt(std::optional<std::chrono::nanoseconds> limit) {
  received = 0;
  struct sigaction action {};
  action.sa_handler = count_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    sigaction(signals[i], nullptr, &before_[i]);
    // Who started us may want signals ignored (nohup).
    if (before_[i].sa_handler != SIG_IGN) sigaction(signals[i], &action, nullptr);
  }
  watcher_ = std::thread([this, limit] { watch(limit); });
}

Interrupt::~Interrupt() {
  done_ = true;
  watcher_.join();
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
}

void Interrupt::watch(std::optional<std::chrono::nanoseconds> limit) {
  constexpr std::chrono::milliseconds pause{20};
  const auto begin = std::chrono::steady_clock::now();
  auto stopped = std::chrono::steady_clock::time_point::max();
  for (; !done_; std::this_thread::sleep_for(pause)) {
    const int count = received;
    if (count > 1) _exit(exit_interrupted);
    interrupted_ = count > 0;
    const auto now = std::chrono::steady_clock::now();
    if (interrupted_ || (limit && now - begin >= *limit)) {
      if (source_.request_stop()) stopped = now;
    }
    if (now > stopped && now - stopped >= grace) late_source_.request_stop();
  }
}

}  // namespace stagecraft
