// The one exception of the project: a sentence for the user, where it went wrong, and what would
// help.

#pragma once

#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace stagecraft {

/// The kind of an error, from the user's point of view. Each kind has an exit code (see
/// `exit_code`).
enum class ErrorKind {
  usage,       ///< a flag or argument that cannot be understood: exit 2
  input,       ///< a file or value that is wrong: exit 3
  infeasible,  ///< a good question without an answer, for example "nothing fits": exit 4
  execution,   ///< something failed while a plan was running: exit 5
  check,       ///< a check or verification found the result wrong: exit 6
  bug,         ///< our fault: exit 1
};

/// The kind's name in JSON output: "usage", "input", …
std::string to_string(ErrorKind kind);

/// The process exit code of the kind.
int exit_code(ErrorKind kind);

/// Where in a text file something is; line and column count from 1.
struct SourcePlace {
  std::string file;
  int line = 0;
  int column = 0;
  bool operator==(const SourcePlace&) const = default;
};

/// One sentence about one mistake. `what()` is "file:line:column: message" when a place is known.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string message, std::optional<SourcePlace> place = {},
        std::vector<std::string> help = {});

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::optional<SourcePlace>& place() const { return place_; }
  /// The remedy; may be empty.
  const std::vector<std::string>& help() const { return help_; }

 private:
  ErrorKind kind_;
  std::string message_;
  std::optional<SourcePlace> place_;
  std::vector<std::string> help_;
};

/// Joins parts into one string by `operator<<`.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

/// Throws an `input` error made of the parts.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(ErrorKind::input, concat(parts...));
}

/// Throws a `usage` error made of the parts.
template <class... Parts>
[[noreturn]] void fail_usage(const Parts&... parts) {
  throw Error(ErrorKind::usage, concat(parts...));
}

/// Throws an error of this kind with remedies.
[[noreturn]] void fail_with_help(ErrorKind kind, std::string message,
                                 std::vector<std::string> help);

}  // namespace stagecraft
