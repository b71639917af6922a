// Ctrl-C and SIGTERM where nothing is worth an orderly end: what is half written goes, one sentence
// says why, and the program ends.

#pragma once

#include <array>
#include <csignal>

#include "tools/console.hpp"

namespace stagecraft {

/// While it lives, SIGINT and SIGTERM end the program at once, with a sentence on standard error,
/// with --json its document, and 130 or 143. An `Interrupt` that is made meanwhile takes their
/// place. Signals that are ignored stay so, and ranks that a launcher has started end as they
/// always do: it speaks for them. One at a time.
class EndAtOnce {
 public:
  explicit EndAtOnce(const Console& console);
  ~EndAtOnce();
  EndAtOnce(const EndAtOnce&) = delete;
  EndAtOnce& operator=(const EndAtOnce&) = delete;

 private:
  std::array<struct sigaction, 2> before_{};
};

}  // namespace stagecraft
