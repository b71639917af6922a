#include "tools/launch/handed_on.hpp"

#include <array>
#include <cerrno>
#include <string_view>

namespace stagecraft {

namespace {

/// Writes all of it to standard output; why it could not, as errno, or 0.
int write_out(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written == 0 ? EIO : errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

void HandedOn::hand_on() {
  std::array<char, 4096> bytes{};
  for (;;) {
    const ssize_t came = ::read(pipe_.out.number(), bytes.data(), bytes.size());
    if (came < 0 && errno == EINTR) continue;
    if (came <= 0) return;
    if (lost_by_ == 0) lost_by_ = write_out({bytes.data(), static_cast<std::size_t>(came)});
  }
}

}  // namespace stagecraft
