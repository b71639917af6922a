#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// "file:line:column: message"; a place without a line is the file as a whole.
std::string with_place(const std::string& message, const std::optional<SourcePlace>& place) {
  if (!place) return message;
  if (place->line == 0) return concat(place->file, ": ", message);
  return concat(place->file, ":", place->line, ":", place->column, ": ", message);
}

/// Without its middle, if it is longer than a reader looks at: a file may have a name, or a word,
/// of any length, and be cited with it.
const std::string& shortened(std::string& message) {
  constexpr std::size_t first_kept = 1400, last_kept = 400, longest = 2000;
  if (message.size() <= longest) return message;
  const auto is_inside_character = [&](std::size_t at) {
    return (static_cast<unsigned char>(message[at]) & 0xC0) == 0x80;  // UTF-8
  };
  std::size_t first = first_kept, last = message.size() - last_kept;
  while (first > first_kept - 4 && is_inside_character(first)) --first;
  while (last < message.size() - last_kept + 4 && is_inside_character(last)) ++last;
  message.replace(first, last - first, concat(" [", last - first, " bytes left out] "));
  return message;
}

}  // namespace

std::string to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage: return "usage";
    case ErrorKind::input: return "input";
    case ErrorKind::infeasible: return "infeasible";
    case ErrorKind::execution: return "execution";
    case ErrorKind::check: return "check";
    case ErrorKind::bug: return "bug";
  }
  return "bug";
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::bug: return 1;
    case ErrorKind::usage: return 2;
    case ErrorKind::input: return 3;
    case ErrorKind::infeasible: return 4;
    case ErrorKind::execution: return 5;
    case ErrorKind::check: return 6;
  }
  return 1;
}

Error::Error(ErrorKind kind, std::string message, std::optional<SourcePlace> place,
             std::vector<std::string> help)
    : std::runtime_error(with_place(shortened(message), place)),
      kind_(kind),
      message_(std::move(message)),
      place_(std::move(place)),
      help_(std::move(help)) {}

void fail_with_help(ErrorKind kind, std::string message, std::vector<std::string> help) {
  throw Error(kind, std::move(message), {}, std::move(help));
}

}  // namespace stagecraft
