#include "tools/interrupt.hpp"

#include <unistd.h>
#include <csignal>

namespace stagecraft {
namespace {

constexpr int exit_interrupted = 130;
constexpr std::chrono::milliseconds grace{500};

sigset_t interrupting_signals() {
  sigset_t signals{};
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

// The signals are blocked in every thread and fetched by one, so that no code ever runs inside a
// signal handler.
Interrupt::Interrupt(std::optional<std::chrono::nanoseconds> limit) {
  const sigset_t signals = interrupting_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  watcher_ = std::thread([this, limit] { watch(limit); });
}

Interrupt::~Interrupt() {
  done_ = true;
  watcher_.join();
  const sigset_t signals = interrupting_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

void Interrupt::watch(std::optional<std::chrono::nanoseconds> limit) {
  const sigset_t signals = interrupting_signals();
  const timespec pause{.tv_sec = 0, .tv_nsec = 20'000'000};
  const auto begin = std::chrono::steady_clock::now();
  auto stopped = std::chrono::steady_clock::time_point::max();
  while (!done_) {
    const bool is_signal = sigtimedwait(&signals, nullptr, &pause) > 0;
    if (is_signal && interrupted_.exchange(true)) _exit(exit_interrupted);
    const auto now = std::chrono::steady_clock::now();
    if (is_signal || (limit && now - begin >= *limit)) {
      if (source_.request_stop()) stopped = now;
    }
    if (now > stopped && now - stopped >= grace) late_source_.request_stop();
  }
}

}  // namespace stagecraft
