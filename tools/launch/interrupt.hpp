// Ctrl-C, SIGTERM and time limits as a stop token: the first ends the work in good order, a second
// signal ends the program at once.

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace stagecraft {

/// While it lives, SIGINT and SIGTERM request a stop instead of ending the process; in a rank that
/// this program has started through mpirun, so do SIGUSR1 and SIGUSR2, as which mpirun passes them
/// on. One at a time.
class Interrupt {
 public:
  explicit Interrupt(std::optional<std::chrono::nanoseconds> limit = {});
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  /// Stops half a second later: for what is still to be said of the best so far.
  std::stop_token late_token() const { return late_source_.get_token(); }
  /// A person or another program interrupted (not the time limit).
  bool interrupted() const { return signal_ != 0; }
  /// SIGINT or SIGTERM, or 0.
  const std::atomic<int>& signal() const { return signal_; }
  /// 130 or 143, as shells count signals.
  int exit_code() const { return 128 + signal_; }
  /// "interrupted by signal 2 (Interrupt)".
  std::string words() const;

  /// While there is nothing yet that is worth an orderly end, the first signal ends the program at
  /// once, too, with `sentence` on standard error (empty: none).
  void end_at_once(std::string sentence);
  void end_in_order();
  /// From the stop on, the work has 0.8 seconds; then `task` is called, on another thread, and the
  /// program ends with the code that it returns. For work that looks at no token; empty: no longer.
  void end_late(std::function<int()> task);
  /// Done before the program ends at once, on another thread.
  void before_end(std::function<void()> task);

 private:
  void watch(std::optional<std::chrono::nanoseconds> limit);
  [[noreturn]] void end(int signal, const std::string& sentence);

  std::stop_source source_, late_source_;
  std::atomic<int> signal_ = 0;
  std::atomic<bool> done_ = false;
  std::mutex mutex_;
  std::optional<std::string> at_once_;  ///< guarded by it, as the next
  std::vector<std::function<void()>> before_end_;
  std::function<int()> end_late_;
  std::array<struct sigaction, 4> before_{};
  std::thread watcher_;
};

/// "signal 15 (Terminated)".
std::string words_of_signal(int signal);

}  // namespace stagecraft
