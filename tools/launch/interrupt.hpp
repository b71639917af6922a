// Ctrl-C, SIGTERM and time limits as a stop token: the first one ends the work in an orderly way, a
// second signal ends the program at once.

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

/// During its lifetime, SIGINT and SIGTERM request a stop instead of ending the process; so do
/// SIGUSR1 and SIGUSR2 in a rank that this program started through mpirun, which passes signals on
/// in this form. Only one may exist at a time.
class Interrupt {
 public:
  explicit Interrupt(std::optional<std::chrono::nanoseconds> limit = {});
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  /// A token that stops half a second later, for explanations of the best result so far.
  std::stop_token late_token() const { return late_source_.get_token(); }
  /// Whether a signal, not the time limit, requested the stop.
  bool interrupted() const { return signal_ != 0; }
  /// SIGINT or SIGTERM, or 0.
  const std::atomic<int>& signal() const { return signal_; }
  /// 130 or 143, as shells count signals.
  int exit_code() const { return 128 + signal_; }
  /// "interrupted by signal 2 (Interrupt)".
  std::string words() const;

  /// Lets the first signal end the program at once, too, with `sentence` on standard error (empty:
  /// none), while there is no result to save.
  void end_at_once(std::string sentence);
  void end_in_order();
  /// Gives the work 0.8 seconds after a stop; then calls `task` on another thread, and ends the
  /// program with the code that it returns. For work that does not check the token. An empty task
  /// cancels this.
  void end_late(std::function<int()> task);
  /// Sets a task that runs on another thread before the program ends at once.
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
