// Who may write to a folder of checkpoints: one run at a time.

#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace stagecraft {

/// Who has written the file of a lock.
struct LockOwner {
  std::string host;
  int pid = 0;
};
/// "4711 node-3": nothing if it is none, or not yet.
std::optional<LockOwner> owner_told_by(const std::string& text);

/// What a lock asks of the system, so that tests can put another process between any two calls.
class LockCalls {
 public:
  virtual ~LockCalls() = default;
  virtual int open(const char* path);  ///< an ordinary file, made if there is none
  virtual int lock(int descriptor);    ///< flock, for itself alone, without waiting
  /// Whether the open file is still the one of this name: its owner may have removed it.
  virtual bool is_of_name(int descriptor, const char* path);
  virtual int remove(const char* path);  ///< unlink
  virtual int close(int descriptor);
};
/// The system's own.
LockCalls& lock_calls();

/// Holds the folder while it lives: the file ".lock" in it names host and process, and is locked as
/// flock(2) does it, so that the lock of a process that was killed is nobody's, and its file stale.
/// Where the file system has no locks, a file that names a process of this host that is no more is
/// stale, and every other one holds.
class FolderLock {
 public:
  /// Waits so long for a process that is about to end: those of a run that was killed do so within
  /// two seconds. Throws Error (execution) in one sentence with host and process if another one
  /// holds the folder.
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
