#include "planner/interop/importers/launch/flag_text.hpp"

#include <algorithm>

namespace stagecraft {

std::string text_of_flag(const FlagWord& word, FlagReading::Kind kind) {
  if (kind == FlagReading::Kind::shell && word.section.empty())
    return "--" + word.name + (word.value ? " " + *word.value : "");
  std::string name = word.name;
  std::replace(name.begin(), name.end(), '-', '_');
  const std::string section = word.section.empty() ? "" : word.section + ".";
  const bool is_override = kind == FlagReading::Kind::shell;
  return section + name + (is_override ? "=" : ": ") + word.value.value_or("true");
}

void note_understood(const FlagWord& word, FlagReading::Kind kind, ParsedLaunch& parsed) {
  parsed.launch.understood.push_back({text_of_flag(word, kind), word.place});
}

}  // namespace stagecraft
