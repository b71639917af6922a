// What a command of the program answers, for tests of the command line.

#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "tests/catch.hpp"

namespace stagecraft::tests {

struct Answer {
  int code = 0;      ///< 128 + the signal that killed it
  std::string text;  ///< of both streams
  bool operator==(const Answer&) const = default;
};

/// Runs the program with these words in a folder.
inline Answer answer(const std::filesystem::path& folder, const std::string& words) {
  const std::string command = "cd '" + folder.string() +
                              "' && STAGECRAFT_PROGRESS=never '" STAGECRAFT_PROGRAM "' " + words +
                              " 2>&1 </dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Answer result;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe))
    result.text.append(buffer.data(), count);
  const int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace stagecraft::tests
