// --time-limit for verbs without partial results: after the limit they end with a sentence.

#pragma once

#include <optional>
#include <string>

#include "tools/console.hpp"
#include "tools/launch/interrupt.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// --time-limit D, as it was given; empty: none.
void declare_time_limit(CLI::App& app, std::string& limit);

/// During its lifetime, the program ends within a second after the limit, in any state, with a
/// sentence and the exit code of an infeasible question. Without a limit it does nothing.
class TimeLimit {
 public:
  /// Throws Error (usage) for a malformed duration.
  TimeLimit(Console& console, const std::string& limit);

 private:
  std::optional<Interrupt> interrupt_;
};

}  // namespace stagecraft
