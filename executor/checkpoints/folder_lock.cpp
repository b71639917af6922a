#include "executor/checkpoints/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "executor/driver/host.hpp"
#include "profiles/error.hpp"
#include "profiles/units.hpp"

namespace stagecraft {

namespace {

using namespace std::chrono_literals;

/// Processes of a run that was killed end within two seconds.
constexpr auto patience_with_owner = 3s;
/// One that is there, and of this host, is about to end or goes on.
constexpr auto patience_with_neighbour = 300ms;

struct LockOwner {
  std::string host;
  int pid = 0;
};

std::optional<LockOwner> owner_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  LockOwner owner;
  return stream >> owner.pid >> owner.host ? std::optional(owner) : std::nullopt;
}

bool is_here(const LockOwner& owner) {
  return owner.host == host_name() && (kill(owner.pid, 0) == 0 || errno == EPERM);
}

bool may_live(const LockOwner& owner) {
  return owner.host != host_name() || is_here(owner);
}

/// Whether the open file is still the one of this name: its owner may have removed it.
bool is_of_name(int descriptor, const std::filesystem::path& file) {
  struct stat open {
  }, named{};
  return fstat(descriptor, &open) == 0 && lstat(file.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

[[noreturn]] void fail_locking(const std::filesystem::path& file, const std::string& why) {
  throw Error(ErrorKind::execution,
              concat(file.parent_path().string(), ": checkpoints cannot be written here: ", why));
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) : file_(folder / ".lock") {
  const auto start = std::chrono::steady_clock::now();
  while (!takes()) {
    const auto owner = owner_in(file_);
    const auto patience = owner && is_here(*owner) ? Duration{patience_with_neighbour}
                                                   : Duration{patience_with_owner};
    if (std::chrono::steady_clock::now() - start > patience) {
      fail_locking(file_, concat(owner ? concat("process ", owner->pid, " on ", owner->host)
                                       : std::string("another process"),
                                 " is writing its own; wait for it, or name another folder with "
                                 "--checkpoint"));
    }
    std::this_thread::sleep_for(50ms);
  }
  const std::string owner = concat(getpid(), " ", host_name(), "\n");
  const bool written =
      ftruncate(descriptor_, 0) == 0 &&
      pwrite(descriptor_, owner.data(), owner.size(), 0) == static_cast<ssize_t>(owner.size());
  if (!written) {
    const int error = errno;
    close(descriptor_);
    fail_locking(file_, std::strerror(error));
  }
}

/// False while another process holds it.
bool FolderLock::takes() {
  descriptor_ = open(file_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (descriptor_ < 0 && errno == ELOOP) {
    fail_locking(file_,
                 concat(file_.string(), " is a symbolic link, which may lead anywhere; remove it"));
  }
  if (descriptor_ < 0) fail_locking(file_, concat(file_.string(), ": ", std::strerror(errno)));
  struct stat status {};
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    fail_locking(file_, concat(file_.string(), " is no ordinary file; remove it"));
  }
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
    if (is_of_name(descriptor_, file_)) return true;
  } else if (errno != EWOULDBLOCK) {
    const auto owner = owner_in(file_);
    if (!owner || !may_live(*owner)) return true;
  }
  close(descriptor_);
  descriptor_ = -1;
  return false;
}

/// The name goes first: who opens it from here on makes a new one.
FolderLock::~FolderLock() {
  unlink(file_.c_str());
  close(descriptor_);
}

}  // namespace stagecraft
