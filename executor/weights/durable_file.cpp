#include "executor/weights/durable_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

std::string sentence_about(const std::filesystem::path& path, const std::string& reason) {
  return concat(path.string(), ": cannot be written: ", reason);
}

[[noreturn]] void refuse_writing(const std::filesystem::path& path, const std::string& reason) {
  throw NotWritten(sentence_about(path, reason));
}

/// Whether another attempt may do better: of a disk or a server that fails for a while, or where
/// memory and descriptors are short.
bool may_pass(int error) {
  constexpr std::array passing{EIO,    ESTALE, ETIMEDOUT, EAGAIN, EINTR,
                               ENOMEM, EMFILE, ENFILE,    EBUSY,  ENOTCONN};
  return std::ranges::find(passing, error) != passing.end();
}

}  // namespace

void fail_writing(const std::filesystem::path& path, int error, const std::string& more) {
  const std::string sentence = sentence_about(path, std::strerror(error) + more);
  if (may_pass(error)) throw Error(ErrorKind::execution, sentence);
  throw NotWritten(sentence);
}

int SystemCalls::open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags, mode);
}
int SystemCalls::truncate(int descriptor, off_t bytes) {
  return ::ftruncate(descriptor, bytes);
}
ssize_t SystemCalls::write(int descriptor, const void* bytes, std::size_t count) {
  return ::write(descriptor, bytes, count);
}
int SystemCalls::sync(int descriptor) {
  return ::fsync(descriptor);
}
int SystemCalls::close(int descriptor) {
  return ::close(descriptor);
}
int SystemCalls::rename(const char* from, const char* to) {
  return std::rename(from, to);
}
int SystemCalls::make_folder(const char* path, mode_t mode) {
  return ::mkdir(path, mode);
}
int SystemCalls::remove(const char* path) {
  return std::remove(path);
}

SystemCalls& system_calls() {
  static SystemCalls calls;
  return calls;
}

DurableFile::DurableFile(std::filesystem::path path, Bytes whole, std::string remedy,
                         SystemCalls& calls)
    : path_(std::move(path)),
      whole_(whole),
      remedy_(std::move(remedy)),
      calls_(calls),
      descriptor_(calls.open(path_.c_str(),
                             O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0 && errno == ELOOP) {
    refuse_writing(path_, "it is a symbolic link, which may lead anywhere; remove it");
  }
  if (descriptor_ < 0) fail();
  const auto refuse = [&](const std::string& reason) {
    calls_.close(std::exchange(descriptor_, -1));
    refuse_writing(path_, reason);
  };
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0 && !S_ISREG(status.st_mode)) {
    refuse("it is no ordinary file");
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    refuse("another process is writing it; wait for that one, or name another file");
  }
  if (calls_.truncate(descriptor_, 0) != 0) {
    const int error = errno;
    calls_.close(std::exchange(descriptor_, -1));
    fail_writing(path_, error);
  }
}

DurableFile::~DurableFile() {
  if (descriptor_ >= 0) calls_.close(descriptor_);
}

/// Of "w.safetensors.part" people know the name without the ending.
void DurableFile::fail() const {
  const int error = errno;
  std::filesystem::path shown = path_;
  if (shown.extension() == ".part") shown.replace_extension();
  fail_writing(shown, error,
               concat("; it needs ", format_bytes(whole_), " (", whole_, " bytes): ", remedy_));
}

void DurableFile::write(std::string_view bytes) {
  size_ += static_cast<Bytes>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t written = calls_.write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void DurableFile::finish() {
  if (calls_.sync(descriptor_) != 0) fail();
  if (calls_.close(std::exchange(descriptor_, -1)) != 0) fail();
}

void make_durable(const std::filesystem::path& folder, SystemCalls& calls) {
  const std::string path = folder.empty() ? "." : folder.string();
  const int descriptor = calls.open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  const bool done = descriptor >= 0 && calls.sync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) calls.close(descriptor);
  if (!done) fail_writing(path, error);
}

int make_folders(const std::filesystem::path& folder, SystemCalls& calls) {
  namespace fs = std::filesystem;
  std::error_code none;
  std::vector<fs::path> missing;  // the innermost first
  for (fs::path at = fs::weakly_canonical(folder, none); !at.empty() && !fs::exists(at, none);
       at = at.parent_path()) {
    if (at.has_filename()) missing.push_back(at);
  }
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
    // Other processes of the run may make it, too.
    if (calls.make_folder(at->c_str(), 0777) != 0 && errno != EEXIST) return errno;
    make_durable(at->parent_path(), calls);
  }
  return fs::is_directory(folder, none) ? 0 : ENOTDIR;
}

void remove_all(const std::filesystem::path& path, SystemCalls& calls) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  if (!fs::exists(status)) return;
  if (fs::is_directory(status)) {
    std::vector<fs::path> inside;
    for (const auto& entry : fs::directory_iterator(path, ignored)) inside.push_back(entry.path());
    for (const fs::path& each : inside) remove_all(each, calls);
  }
  calls.remove(path.c_str());
}

// Renamed over a device such as /dev/null, a file would take it from the whole machine.
void require_ordinary_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::status_known(status)) fail_writing(path, error.value());
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    refuse_writing(path, "it is no ordinary file; name another one");
}

void replace_durably(const std::filesystem::path& path, Bytes whole, const std::string& remedy,
                     const std::function<void(DurableFile&)>& write, SystemCalls& calls) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path target = fs::is_symlink(path, none) ? fs::weakly_canonical(path, none) : path;
  require_ordinary_file(target);
  fs::path part = target;
  part += ".part";
  DurableFile file(part, whole, remedy, calls);
  try {
    write(file);
    file.finish();
    if (calls.rename(part.c_str(), target.c_str()) != 0) fail_writing(target, errno);
  } catch (...) {
    fs::remove(part, none);
    throw;
  }
  make_durable(target.parent_path(), calls);
}

}  // namespace stagecraft
