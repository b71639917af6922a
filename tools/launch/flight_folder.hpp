// The folder of a run's flight records: the user's, or a new one below the system's temporary
// folder, which is removed after a successful run. The newest 16 folders of failed runs are kept.

#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "profiles/error.hpp"

namespace stagecraft {

class FlightFolder {
 public:
  /// `asked`: the user's folder; empty for a temporary one. All processes of a job use the same.
  explicit FlightFolder(const std::string& asked);
  /// Removes a temporary folder, unless `keep` was called.
  ~FlightFolder();
  FlightFolder(const FlightFolder&) = delete;
  FlightFolder& operator=(const FlightFolder&) = delete;

  /// The path; empty if the folder cannot be created, and records stay in memory.
  const std::filesystem::path& path() const { return path_; }
  /// Keeps the folder for `diagnose`, after a failure.
  void keep() { removes_ = false; }
  /// The path if the folder will be removed, else empty.
  std::filesystem::path path_to_remove() const;
  /// Keeps the records, and adds the command that reads them to the error.
  Error explained(const Error& error);

 private:
  std::filesystem::path path_;
  bool removes_ = false;
};

}  // namespace stagecraft
