// Our layout of JSON, and files as a whole: reading, writing, hashing.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "profiles/error.hpp"
#include "profiles/gzip.hpp"
#include "profiles/json.hpp"
#include "profiles/machine_memory.hpp"
#include "profiles/missing_file.hpp"
#include "profiles/raw_file.hpp"
#include "profiles/temporary_file.hpp"

namespace stagecraft {

namespace {

using Value = nlohmann::ordered_json;

constexpr std::size_t widest_line = 100;

std::string quoted(const std::string& text) {
  return Value(text).dump(-1, ' ', false, Value::error_handler_t::replace);
}

std::string scalar(const Value& value) {
  // nlohmann would write null, and the file could not be read back as what it was.
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    throw Error(ErrorKind::bug, "cannot write a number that is not finite as JSON");
  }
  return value.dump(-1, ' ', false, Value::error_handler_t::replace);
}

/// Can be read on a single line: at most one object inside another, and no list of objects.
bool is_simple(const Value& value, int objects_deep) {
  if (!value.is_structured()) return true;
  if (value.is_object() && objects_deep == 0) return false;
  const int deep = value.is_object() ? objects_deep - 1 : 0;
  for (const Value& child : value) {
    if (!is_simple(child, deep)) return false;
  }
  return true;
}

/// The value on a single line: "[0, 4]", "{"count": 4}".
std::string one_line(const Value& value) {
  if (!value.is_structured()) return scalar(value);
  std::string text;
  for (const auto& member : value.items()) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text += quoted(member.key()) + ": ";
    text += one_line(member.value());
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

void write_value(std::string& text, const Value& value, std::size_t indent, std::size_t column);

/// A list of scalars too long for one line: as many on each line as fit.
void write_filled(std::string& text, const Value& list, std::size_t indent) {
  std::size_t column = widest_line + 1;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string item = scalar(list[i]) + (i + 1 < list.size() ? "," : "");
    const bool fits = column + 1 + item.size() <= widest_line;
    text += fits ? " " : "\n" + std::string(indent, ' ');
    column = fits ? column + 1 + item.size() : indent + item.size();
    text += item;
  }
}

bool only_scalars(const Value& list) {
  for (const Value& item : list) {
    if (item.is_structured()) return false;
  }
  return true;
}

void write_members(std::string& text, const Value& value, std::size_t indent) {
  bool first = true;
  for (const auto& member : value.items()) {
    text += first ? "\n" : ",\n";
    first = false;
    const std::string start = std::string(indent, ' ') +
                              (value.is_object() ? quoted(member.key()) + ": " : std::string());
    text += start;
    write_value(text, member.value(), indent, start.size());
  }
}

/// Appends the value; `column` is where it starts, `indent` the indentation of its line.
void write_value(std::string& text, const Value& value, std::size_t indent, std::size_t column) {
  constexpr std::size_t comma = 1;
  if (!value.is_structured() || value.empty()) {
    text += one_line(value);
    return;
  }
  const bool whole_document = column == 0 && value.is_object();
  if (!whole_document && is_simple(value, 2)) {
    const std::string line = one_line(value);
    if (column + line.size() + comma <= widest_line) {
      text += line;
      return;
    }
  }
  text += value.is_object() ? '{' : '[';
  if (value.is_array() && only_scalars(value)) {
    write_filled(text, value, indent + 2);
  } else {
    write_members(text, value, indent + 2);
  }
  text += "\n" + std::string(indent, ' ') + (value.is_object() ? '}' : ']');
}

[[noreturn]] void fail_read(const std::string& path, int error) {
  throw Error(ErrorKind::input, concat("cannot read: ", std::strerror(error)),
              SourcePlace{path, 0, 0});
}

[[noreturn]] void fail_write(const std::string& path, int error) {
  throw Error(ErrorKind::execution, concat("cannot write: ", std::strerror(error)),
              SourcePlace{path, 0, 0});
}

/// A file descriptor that is closed when it goes out of scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  /// Some file systems report a full disk only here.
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

/// False, with errno set, if not everything could be written.
bool write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

void write_in_place(const std::string& path, std::string_view content) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.number() < 0 || !write_all(file.number(), content) || !file.close())
    fail_write(path, errno);
}

mode_t ordinary_permissions() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

/// Its name, where a signal handler finds it; files are written one at a time.
std::atomic<const char*> temporary_name = nullptr;
static_assert(std::atomic<const char*>::is_always_lock_free);

/// From before the file is there until it has gone, or has its own name.
class NamedForHandlers {
 public:
  explicit NamedForHandlers(const std::string& name) { temporary_name = name.c_str(); }
  ~NamedForHandlers() { temporary_name = nullptr; }
  NamedForHandlers(const NamedForHandlers&) = delete;
  NamedForHandlers& operator=(const NamedForHandlers&) = delete;
};

void replace_file(const std::string& path, std::string_view content) {
  std::string temporary = path + ".XXXXXX";
  const NamedForHandlers named(temporary);
  Descriptor file(::mkstemp(temporary.data()));
  if (file.number() < 0) fail_write(path, errno);
  const bool written = write_all(file.number(), content) &&
                       ::fchmod(file.number(), ordinary_permissions()) == 0 && file.close() &&
                       std::rename(temporary.c_str(), path.c_str()) == 0;
  if (written) return;
  const int error = errno;
  ::unlink(temporary.c_str());
  fail_write(path, error);
}

/// Of a file that is to be written: no folder, and no name that can lead nowhere.
std::filesystem::file_status status_for_writing(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) fail_write(path.string(), EISDIR);
  if (!std::filesystem::status_known(status)) fail_write(path.string(), error.value());
  return status;
}

}  // namespace

void remove_temporary_file() noexcept {
  if (const char* name = temporary_name) ::unlink(name);
}

std::string to_text(const Value& value) {
  std::string text;
  write_value(text, value, 0, 0);
  return text + "\n";
}

void require_writable(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto status = status_for_writing(path);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) return;
  const std::filesystem::path target = std::filesystem::is_symlink(path, ignored)
                                           ? std::filesystem::weakly_canonical(path, ignored)
                                           : path;
  const std::filesystem::path folder = target.parent_path();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0)
    fail_write(path.string(), errno);
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  if (path == "-") {
    const bool written = std::fwrite(content.data(), 1, content.size(), stdout) == content.size();
    if (!written || std::fflush(stdout) != 0) fail_write("standard output", errno);
    return;
  }
  std::error_code ignored;
  const auto status = status_for_writing(path);
  // A pipe or a device such as /dev/stdout is written to; it must not be replaced by a file.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return write_in_place(path.string(), content);
  }
  const bool link = std::filesystem::is_symlink(path, ignored);
  replace_file(link ? std::filesystem::weakly_canonical(path, ignored).string() : path.string(),
               content);
}

namespace {

/// Of a pipe or a device, which may have no end; of a file as much as the memory has room for,
/// twice, for what is made of it.
Bytes most_bytes_of(int descriptor) {
  constexpr Bytes most_of_a_stream = Bytes{1} << 30;
  struct stat status {};
  const Bytes room = usable_memory() / 2;
  const bool is_file = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  return is_file ? room : std::min(room, most_of_a_stream);
}

[[noreturn]] void fail_too_long(const std::string& name, Bytes most) {
  throw Error(ErrorKind::input,
              concat("is longer than ", format_bytes(most),
                     ", the most that is read of it here; name a shorter file"),
              SourcePlace{name, 0, 0});
}

}  // namespace

std::string read_raw_file(const std::filesystem::path& path) {
  const bool standard_input = path == "-";
  const std::string name = standard_input ? "standard input" : path.string();
  const Descriptor file(standard_input ? ::dup(STDIN_FILENO)
                                       : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0 && errno == ENOENT) fail_missing(path);
  if (file.number() < 0) fail_read(name, errno);
  const Bytes most = most_bytes_of(file.number());
  struct stat status {};
  if (::fstat(file.number(), &status) == 0 && status.st_size > most) fail_too_long(name, most);
  std::string content;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t count = ::read(file.number(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_read(name, errno);
    if (count == 0) return content;
    if (static_cast<Bytes>(content.size()) + count > most) fail_too_long(name, most);
    content.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

std::string read_file(const std::filesystem::path& path) {
  // What a trace of the largest runs holds; more is rather a file that was made to fill memories.
  constexpr Bytes most_inflated = Bytes{4} << 30;
  const std::string name = path == "-" ? "standard input" : path.string();
  return inflated(read_raw_file(path), name, std::min(most_inflated, usable_memory() / 2));
}

}  // namespace stagecraft
