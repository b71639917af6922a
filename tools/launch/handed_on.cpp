#include "tools/launch/handed_on.hpp"

#include <array>
#include <cerrno>
#include <string_view>

namespace stagecraft {

namespace {

bool is_written(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

void HandedOn::hand_on() {
  std::array<char, 4096> bytes{};
  for (;;) {
    const ssize_t came = ::read(pipe_.out.number(), bytes.data(), bytes.size());
    if (came < 0 && errno == EINTR) continue;
    if (came <= 0) return;
    if (!is_lost_ && !is_written({bytes.data(), static_cast<std::size_t>(came)})) is_lost_ = true;
  }
}

}  // namespace stagecraft
