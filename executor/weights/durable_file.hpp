// Files that are on disk when we say so: data, fsync, rename, fsync of the folder.
//
// A name that is renamed to holds the old content or the new one, whatever fails in between, and
// whenever (rename(2), fsync(2); Pillai et al., "All File Systems Are Not Created Equal", 2014).

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "profiles/error.hpp"
#include "profiles/units.hpp"

namespace stagecraft {

/// The system calls used, so that tests can make each call fail, or simulate a loss of power. Like
/// the functions of the same names, they return -1 and set errno on failure.
class SystemCalls {
 public:
  virtual ~SystemCalls() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual int truncate(int descriptor, off_t bytes);
  virtual ssize_t write(int descriptor, const void* bytes, std::size_t count);
  virtual int sync(int descriptor);  ///< fsync
  virtual int close(int descriptor);
  virtual int rename(const char* from, const char* to);
  virtual int make_folder(const char* path, mode_t mode);  ///< mkdir
  virtual int remove(const char* path);                    ///< of a file, or of an empty folder
};
/// The system's own.
SystemCalls& system_calls();

/// A file cannot be written, and repeating would not help: the disk is full, or access is denied.
class NotWritten : public Error {
 public:
  explicit NotWritten(std::string sentence) : Error(ErrorKind::execution, std::move(sentence)) {}
};

/// "PATH: cannot be written: …", for this error of the system: NotWritten unless it may pass, as
/// that of a server does.
[[noreturn]] void fail_writing(const std::filesystem::path& path, int error,
                               const std::string& more = "");

/// A file that is written from its beginning to its end; of an older one nothing stays. Refuses
/// what is no regular file, and symbolic links, and a file that another process is writing so. Its
/// functions throw Error (execution) naming the file, what it needs and a way out: "DIR/rank-2.bin:
/// cannot be written: No space left on device; it needs 1.2GiB; …".
class DurableFile {
 public:
  /// `whole`: how many bytes it will have.
  DurableFile(std::filesystem::path path, Bytes whole, std::string remedy,
              SystemCalls& calls = system_calls());
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(std::string_view bytes);
  Bytes size() const { return size_; }
  /// Returns when all of it is on disk.
  void finish();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  Bytes whole_;
  std::string remedy_;
  SystemCalls& calls_;
  int descriptor_ = -1;
  Bytes size_ = 0;
};

/// What happened in a folder (new, renamed and removed files) is on disk when this returns. Throws
/// Error (execution).
void make_durable(const std::filesystem::path& folder, SystemCalls& calls = system_calls());

/// Makes a folder if it is not there, with those above it, all on disk when this returns: 0, or the
/// system's error. Throws Error (execution) where one is not.
int make_folders(const std::filesystem::path& folder, SystemCalls& calls = system_calls());

/// Removes a file, or a folder with all that is in it, as far as that is possible.
void remove_all(const std::filesystem::path& path, SystemCalls& calls = system_calls());

/// Throws Error (execution) where something is there already that is no ordinary file.
void require_ordinary_file(const std::filesystem::path& path);

/// Gives `path` the content that `write` writes, `whole` bytes, or leaves it as it is: by way of
/// "PATH.part". Where `path` is a symbolic link, what it leads to is replaced. Throws Error
/// (execution).
void replace_durably(const std::filesystem::path& path, Bytes whole, const std::string& remedy,
                     const std::function<void(DurableFile&)>& write,
                     SystemCalls& calls = system_calls());

}  // namespace stagecraft
