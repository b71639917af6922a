// A lock that lets only one run at a time write to a folder of checkpoints.

#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace stagecraft {

/// The owner that a lock's file names.
struct LockOwner {
  std::string host;
  int pid = 0;
};
/// Reads "4711 node-3"; nothing if the text is not (yet) complete.
std::optional<LockOwner> owner_told_by(const std::string& text);

/// The system calls of a lock, so that tests can insert another process between any two calls.
class LockCalls {
 public:
  virtual ~LockCalls() = default;
  virtual int open(const char* path);  ///< a regular file, created if missing
  virtual int lock(int descriptor);    ///< flock: exclusive, without waiting
  /// Whether the open file still has this name; its owner may have removed it.
  virtual bool is_of_name(int descriptor, const char* path);
  virtual int remove(const char* path);  ///< unlink
  virtual int close(int descriptor);
};
/// The system's own calls.
LockCalls& lock_calls();

/// Holds the folder during its lifetime. The file ".lock" in it names host and process, and is
/// locked by flock(2), so the lock of a killed process is released and its file is stale. On a file
/// system without locks, a file is stale if it names a process of this host that no longer exists;
/// any other file counts as held.
class FolderLock {
 public:
  /// Waits up to `patience` for a process that is about to end; processes of a killed run end
  /// within two seconds. Throws Error (execution), with host and process, if another process holds
  /// the folder.
  explicit FolderLock(const std::filesystem::path& folder, LockCalls& calls = lock_calls(),
                      std::chrono::milliseconds patience = std::chrono::seconds(3));
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  bool takes();

  std::filesystem::path file_;
  LockCalls& calls_;
  int descriptor_ = -1;
};

}  // namespace stagecraft
