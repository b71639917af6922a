#include "tools/completion/scripts.hpp"

#include <algorithm>

namespace stagecraft {

std::size_t NumberedChoices::number(const Choices& choices) {
  if (choices == Choices{}) return 0;
  const auto found = std::ranges::find(all_, choices);
  const auto number = static_cast<std::size_t>(found - all_.begin()) + 1;
  if (found == all_.end()) all_.push_back(choices);
  return number;
}

std::string in_single_quotes(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string in_fish_quotes(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

}  // namespace stagecraft
