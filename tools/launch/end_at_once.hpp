// Immediate end on Ctrl-C and SIGTERM, for phases without a result to save: unfinished files are
// removed, one sentence gives the reason, and the program ends.

#pragma once

#include <array>
#include <csignal>

#include "tools/console.hpp"

namespace stagecraft {

/// During its lifetime, SIGINT and SIGTERM end the program at once, with a sentence on standard
/// error, the document of --json, and exit code 130 or 143. An `Interrupt` created meanwhile takes
/// over. Ignored signals stay ignored, and ranks started by a launcher end as usual, since the
/// launcher reports for them. Only one may exist at a time.
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
