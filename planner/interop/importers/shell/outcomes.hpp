// How commands end, and how deep they may be in each other. For the sources of this folder.

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

/// Nobody knows what another program answers; it is taken to have gone well.
inline Truth by_program() {
  return {.answer = Truth::Answer::yes, .is_assumed = false, .is_program = true, .causes = {}};
}

/// On one line, with an end that says that there is more.
std::string first_line(std::string text);

/// One more script, function, command or substitution in another, as long as it lives. Throws Error
/// (input) where there are too many, as where a script calls itself.
struct Interpreter::Deeper {
  Deeper(Interpreter& of, const Place& place) : interpreter(of) { of.deepen(place); }
  ~Deeper() { --interpreter.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
  Interpreter& interpreter;
};

}  // namespace stagecraft::shell
