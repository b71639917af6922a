// Who may write to a folder of checkpoints: one run at a time.

#pragma once

#include <filesystem>

namespace stagecraft {

/// Holds the folder while it lives: the file ".lock" in it names host and process, and is locked as
/// flock(2) does it, so that the lock of a process that was killed is nobody's, and its file stale.
/// Where the file system has no locks, a file that names a process of this host that is no more is
/// stale, and every other one holds.
class FolderLock {
 public:
  /// Waits some seconds for a process that is about to end. Throws Error (execution) in one
  /// sentence with host and process if another one holds the folder.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  bool takes();

  std::filesystem::path file_;
  int descriptor_ = -1;
};

}  // namespace stagecraft
