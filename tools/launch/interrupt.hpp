// Ctrl-C and time limits as a stop token: the first ends the work in good order, a second Ctrl-C
// ends the program at once.

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>
#include <stop_token>
#include <thread>

namespace stagecraft {

/// While it lives, SIGINT and SIGTERM request a stop instead of ending the process. One at a time.
class Interrupt {
 public:
  explicit Interrupt(std::optional<std::chrono::nanoseconds> limit = {});
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  /// Stops half a second later: for what is still to be said of the best so far.
  std::stop_token late_token() const { return late_source_.get_token(); }
  /// A person interrupted (not the time limit).
  bool interrupted() const { return interrupted_; }

 private:
  void watch(std::optional<std::chrono::nanoseconds> limit);

  std::stop_source source_, late_source_;
  std::atomic<bool> interrupted_ = false;
  std::atomic<bool> done_ = false;
  std::array<struct sigaction, 2> before_{};
  std::thread watcher_;
};

}  // namespace stagecraft
