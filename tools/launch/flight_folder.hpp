// Where a run's flight records go: the folder the user named, or one of its own below the system's
// temporary folder, which is gone after a run that ended well. Of runs that failed, the newest 16
// stay there.

#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "profiles/error.hpp"

namespace stagecraft {

class FlightFolder {
 public:
  /// `asked`: the user's; empty for one of its own. All processes of a job take the same.
  explicit FlightFolder(const std::string& asked);
  /// Removes what is its own, unless it was to be kept.
  ~FlightFolder();
  FlightFolder(const FlightFolder&) = delete;
  FlightFolder& operator=(const FlightFolder&) = delete;

  /// Empty if there is no place for it: records then stay in memory.
  const std::filesystem::path& path() const { return path_; }
  /// For `diagnose`, after a failure.
  void keep() { removes_ = false; }
  /// The path if it is to be removed, else empty.
  std::filesystem::path path_to_remove() const;
  /// The error with the command that looks at the records, which are kept.
  Error explained(const Error& error);

 private:
  std::filesystem::path path_;
  bool removes_ = false;
};

}  // namespace stagecraft
