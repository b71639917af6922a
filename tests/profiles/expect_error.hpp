// What an expression complains about, and files to complain about.

#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "profiles/error.hpp"
#include "tests/catch.hpp"

namespace stagecraft::tests {

/// The sentence of the Error that `action` throws; empty if it throws none.
template <class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// The exit code of the Error that `action` throws; 0 if it throws none.
template <class Action>
int exit_code_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return exit_code(error.kind());
  }
  return 0;
}

/// A folder of its own that is gone after the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "stagecraft-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Writes a file into the folder and returns its path.
  std::string file(const std::string& name, std::string_view content) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace stagecraft::tests
