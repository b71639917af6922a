// stagecraft VERB …

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include "profiles/error.hpp"
#include "tools/command_line.hpp"

namespace {

std::atomic<void*> reserve = nullptr;
std::atomic<bool> is_exhausted = false;

/// The first allocation that fails leaves some memory for what follows from that: unwinding, and
/// the sentence about it. The reserve is never touched, so that it takes addresses only.
void give_reserve_back() {
  is_exhausted = true;
  std::free(reserve.exchange(nullptr));
  throw std::bad_alloc();
}

std::terminate_handler as_always = std::abort;

/// A sentence, by calls alone that a signal handler may make.
[[noreturn]] void tell_exhausted() {
  constexpr std::string_view sentence =
      "error: this machine's memory is exhausted; ask for less, or raise its limits (ulimit -v)\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, sentence.data(), sentence.size());
  _exit(stagecraft::exit_code(stagecraft::ErrorKind::execution));
}

/// Where nothing may be thrown, memory is asked for as well: in nlohmann/json's destructor.
void end_without_memory() {
  if (!is_exhausted) as_always();
  tell_exhausted();
}

/// What it leaves half made breaks that library's own assertions.
extern "C" void end_aborted(int signal) {
  if (is_exhausted) tell_exhausted();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void keep_reserve() {
  constexpr std::size_t bytes = std::size_t{8} << 20;
  reserve = std::malloc(bytes);
  std::set_new_handler(give_reserve_back);
  as_always = std::set_terminate(end_without_memory);
  std::signal(SIGABRT, end_aborted);
}

}  // namespace

int main(int argc, char** argv) {
  // A file beyond its limit is an error of a write like a full disk, which ends with a sentence; a
  // reader that has gone is one, too, and ends without. A run ends with its checkpoint in each
  // case.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  keep_reserve();
  return stagecraft::run_command_line(argc, argv);
}
