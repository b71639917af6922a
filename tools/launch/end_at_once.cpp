#include "tools/launch/end_at_once.hpp"

#include <unistd.h>

#include <atomic>
#include <string>
#include <string_view>

#include "profiles/temporary_file.hpp"
#include "tools/launch/interrupt.hpp"
#include "tools/launch/lifeline.hpp"

namespace stagecraft {
namespace {

constexpr std::array ending{SIGINT, SIGTERM};

/// Made before, since a signal handler may make nothing.
struct LastWords {
  std::string sentence, document;
};
std::array<LastWords, ending.size()> last_words;
std::atomic_flag is_ending;

void put(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

extern "C" void end_by_signal(int number) {
  if (is_ending.test_and_set()) return;  // on another thread, or by another signal
  remove_temporary_file();
  const LastWords& said = last_words[number == SIGINT ? 0 : 1];
  put(STDERR_FILENO, said.sentence);
  put(STDOUT_FILENO, said.document);
  _exit(128 + number);
}

}  // namespace

EndAtOnce::EndAtOnce(const Console& console) {
  for (std::size_t i = 0; i < ending.size(); ++i) {
    const Error error(ErrorKind::execution, concat("interrupted by ", words_of_signal(ending[i])));
    last_words[i] = {.sentence = concat(console.person_reads_errors() ? "\r\x1b[K" : "",
                                        "error: ", error.message(), "\n"),
                     .document = console.json() ? console.document_of(error) : std::string()};
  }
  struct sigaction action {};
  action.sa_handler = end_by_signal;
  for (std::size_t i = 0; i < ending.size(); ++i) {
    sigaction(ending[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN && !started_by_launcher())
      sigaction(ending[i], &action, nullptr);
  }
}

EndAtOnce::~EndAtOnce() {
  for (std::size_t i = 0; i < ending.size(); ++i) sigaction(ending[i], &before_[i], nullptr);
}

}  // namespace stagecraft
