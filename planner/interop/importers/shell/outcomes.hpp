// How commands end. For the sources of this folder.

#pragma once

#include <string>

#include "planner/interop/importers/shell/interpreter.hpp"
#include "profiles/text.hpp"

namespace stagecraft::shell {

inline Outcome ended(Truth status = {}) {
  return {.flow = Outcome::Flow::next, .levels = 1, .status = std::move(status)};
}

inline Outcome answered(bool yes) {
  return ended(truth(yes));
}

/// The result of another program is unknown; success is assumed.
inline Truth by_program() {
  return {.answer = Truth::Answer::yes, .is_assumed = false, .is_program = true, .causes = {}};
}

/// On one line, with an end that says that there is more.
std::string first_line(std::string text);

}  // namespace stagecraft::shell
