#include "executor/checkpoints/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "executor/driver/host.hpp"
#include "profiles/error.hpp"
#include "profiles/units.hpp"

namespace stagecraft {

namespace {

using namespace std::chrono_literals;

/// One that is there, and of this host, is about to end or goes on.
constexpr std::chrono::milliseconds patience_with_neighbour = 300ms;

std::optional<LockOwner> owner_in(const std::filesystem::path& file) {
  constexpr std::streamsize most_bytes = 512;
  std::ifstream stream(file);
  std::string text(most_bytes, ' ');
  stream.read(text.data(), most_bytes);
  return owner_told_by(text);
}

bool is_here(const LockOwner& owner) {
  return owner.host == host_name() && (kill(owner.pid, 0) == 0 || errno == EPERM);
}

bool may_live(const LockOwner& owner) {
  return owner.host != host_name() || is_here(owner);
}

[[noreturn]] void fail_locking(const std::filesystem::path& file, const std::string& why) {
  throw Error(ErrorKind::execution,
              concat(file.parent_path().string(), ": checkpoints cannot be written here: ", why));
}

}  // namespace

std::optional<LockOwner> owner_told_by(const std::string& text) {
  std::istringstream words(text);
  LockOwner owner;
  if (!(words >> owner.pid >> owner.host) || owner.pid <= 0) return {};
  return owner;
}

int LockCalls::open(const char* path) {
  return ::open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
}
int LockCalls::lock(int descriptor) {
  return ::flock(descriptor, LOCK_EX | LOCK_NB);
}
bool LockCalls::is_of_name(int descriptor, const char* path) {
  struct stat open {
  }, named{};
  return fstat(descriptor, &open) == 0 && lstat(path, &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}
int LockCalls::remove(const char* path) {
  return ::unlink(path);
}
int LockCalls::close(int descriptor) {
  return ::close(descriptor);
}

LockCalls& lock_calls() {
  static LockCalls calls;
  return calls;
}

FolderLock::FolderLock(const std::filesystem::path& folder, LockCalls& calls,
                       std::chrono::milliseconds patience)
    : file_(folder / ".lock"), calls_(calls) {
  const auto start = std::chrono::steady_clock::now();
  while (!takes()) {
    const auto owner = owner_in(file_);
    const auto waits =
        owner && is_here(*owner) ? std::min(patience, patience_with_neighbour) : patience;
    if (std::chrono::steady_clock::now() - start > waits) {
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
    calls_.close(descriptor_);
    fail_locking(file_, std::strerror(error));
  }
}

/// False while another process holds it.
bool FolderLock::takes() {
  descriptor_ = calls_.open(file_.c_str());
  if (descriptor_ < 0 && errno == ELOOP) {
    fail_locking(file_,
                 concat(file_.string(), " is a symbolic link, which may lead anywhere; remove it"));
  }
  if (descriptor_ < 0) fail_locking(file_, concat(file_.string(), ": ", std::strerror(errno)));
  struct stat status {};
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    calls_.close(descriptor_);
    fail_locking(file_, concat(file_.string(), " is no ordinary file; remove it"));
  }
  if (calls_.lock(descriptor_) == 0) {
    if (calls_.is_of_name(descriptor_, file_.c_str())) return true;
  } else if (errno != EWOULDBLOCK) {
    const auto owner = owner_in(file_);
    if (!owner || !may_live(*owner)) return true;
  }
  calls_.close(descriptor_);
  descriptor_ = -1;
  return false;
}

/// The name goes first: who opens it from here on makes a new one.
FolderLock::~FolderLock() {
  calls_.remove(file_.c_str());
  calls_.close(descriptor_);
}

}  // namespace stagecraft
