// Launches of Megatron-LM as tests write them down.

#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "planner/interop/importers/megatron_flags.hpp"
#include "profiles/text.hpp"
#include "tests/profiles/expect_error.hpp"

namespace stagecraft::tests {

inline MegatronLaunch launch(const std::string& content, const ScriptVariables& variables = {},
                             const std::string& file = "run.sh") {
  return read_megatron_launch(content, file, variables);
}

inline std::string complaint(const std::string& content, const ScriptVariables& variables = {}) {
  return message_of([&] { launch(content, variables); });
}

inline std::vector<std::string> texts(const std::vector<ReadText>& read) {
  std::vector<std::string> words;
  for (const ReadText& one : read) words.push_back(concat(one.text, " :", one.place.line));
  return words;
}

inline bool notes_mention(const MegatronLaunch& read, const std::string& words) {
  return std::ranges::any_of(
      read.notes, [&](const std::string& note) { return note.find(words) != std::string::npos; });
}

}  // namespace stagecraft::tests
