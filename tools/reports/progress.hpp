// Progress of what takes longer than a second or two: a line that is drawn over itself on a
// terminal, lines now and then in a log.

#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "tools/console.hpp"

namespace stagecraft {

/// One at a time is shown, the innermost; text that a console prints takes its line's place.
///
/// Draws `what ████░░░░ 42 %  detail` over itself on standard error, and removes it at the end;
/// also while no news comes, with the time that has gone by. Without a terminal it is a line `what:
/// 42 %, detail (12s)` after two seconds, and then every five. Silent with --quiet, and in logs
/// with --json; STAGECRAFT_PROGRESS=never in the environment keeps lines out of logs.
class Progress {
 public:
  enum class TimeLeft { unknown, in_proportion };  ///< to what is done, where that is so

  Progress(const Console& console, std::string what, TimeLeft time_left = TimeLeft::unknown);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// From any thread.
  void update(double done, std::string_view detail = {});
  /// Removes the line: something else is to be printed. The next update draws it again.
  void clear();
  /// The line of whatever is shown now.
  static void clear_shown();

 private:
  using Clock = std::chrono::steady_clock;

  void hide(bool hidden);
  void tick(const std::stop_token& stop);
  void show(Clock::time_point now);
  std::string times(Clock::time_point now) const;

  std::string what_;
  TimeLeft time_left_ = TimeLeft::unknown;
  bool enabled_ = false;
  bool draws_ = false;  ///< on a terminal; else lines
  bool unicode_ = true;
  Clock::time_point start_;
  std::mutex mutex_;  ///< of what follows
  bool drawn_ = false;
  double done_ = -1;     ///< below 0: not known
  bool hidden_ = false;  ///< by one inside it
  std::string detail_;
  Clock::time_point next_;
  std::condition_variable_any ticks_;
  std::jthread ticker_;
  Progress* outer_ = nullptr;
};

}  // namespace stagecraft
