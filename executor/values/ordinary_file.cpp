#include "executor/values/ordinary_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "profiles/error.hpp"
#include "profiles/machine_memory.hpp"

namespace stagecraft {

namespace {

struct OpenFile {
  explicit OpenFile(const std::filesystem::path& path)
      : number(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~OpenFile() {
    if (number >= 0) ::close(number);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int number;
};

}  // namespace

std::string read_ordinary_file(const std::filesystem::path& path) {
  const auto refuse = [&](int error) {
    fail(path.string(), ": cannot be read: ", std::strerror(error));
  };
  const OpenFile file(path);
  if (file.number < 0) refuse(errno);
  struct stat status {};
  if (::fstat(file.number, &status) != 0) refuse(errno);
  if (!S_ISREG(status.st_mode)) fail(path.string(), ": is no ordinary file; remove it");
  if (status.st_size > usable_memory() / 2) {
    fail(path.string(), ": has ", status.st_size, " bytes, for which this machine has no memory");
  }
  std::string content;
  std::array<char, 65536> part{};
  while (const ssize_t came = ::read(file.number, part.data(), part.size())) {
    if (came > 0) content.append(part.data(), static_cast<std::size_t>(came));
    if (came < 0 && errno != EINTR) refuse(errno);
  }
  return content;
}

}  // namespace stagecraft
