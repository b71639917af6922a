#include "tools/interrupt.hpp"

#include <unistd.h>
#include <csignal>

namespace stagecraft {
namespace {

constexpr int exit_interrupted = 130;

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
  while (!done_) {
    if (sigtimedwait(&signals, nullptr, &pause) > 0) {
      if (interrupted_.exchange(true)) _exit(exit_interrupted);
      source_.request_stop();
    }
    if (limit && std::chrono::steady_clock::now() - begin >= *limit) source_.request_stop();
  }
}

}  // namespace stagecraft
