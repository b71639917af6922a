// Files beside a launch script that it names: other scripts, recipes, configurations.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "planner/interop/importers.hpp"

namespace stagecraft {

/// The file, by its path without dots; nothing if there is no regular one. Throws Error (input) for
/// one that is larger than any script.
std::optional<OtherFile> read_other_file(const std::filesystem::path& path);

/// The folder and those around it, four at most, from the inside out.
std::vector<std::filesystem::path> folders_above(const std::filesystem::path& folder);

/// Reads what scripts name: from the first one's folder, the one of the file that was read last, or
/// those above.
class ScriptFolder {
 public:
  /// What is read is added to `others`, which lives as long.
  ScriptFolder(const std::string& file, std::vector<OtherFile>& others)
      : folder_(std::filesystem::path(file).parent_path()), others_(others) {}

  std::optional<OtherFile> read(const std::string& name);

 private:
  std::filesystem::path folder_;
  std::vector<OtherFile>& others_;
};

}  // namespace stagecraft
