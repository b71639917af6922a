// A progress line on a terminal, for what takes longer than a second.

#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "tools/console.hpp"

namespace stagecraft {

/// Draws `what ████░░░░ 42 %  detail` over itself on standard error, and removes it at the end.
/// Silent without a terminal, with --quiet or --json, and during the first second.
class Progress {
 public:
  Progress(const Console& console, std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(double done, std::string_view detail = {});

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  bool enabled_ = false;
  bool unicode_ = true;
  bool drawn_ = false;
  Clock::time_point next_;
};

}  // namespace stagecraft
