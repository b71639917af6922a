// stagecraft VERB …

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <new>

#include "tools/command_line.hpp"

namespace {

std::atomic<void*> reserve = nullptr;

/// The first allocation that fails leaves some memory for what follows from that: unwinding, and
/// the sentence about it. The reserve is never touched, so that it takes addresses only.
void give_reserve_back() {
  std::free(reserve.exchange(nullptr));
  throw std::bad_alloc();
}

void keep_reserve() {
  constexpr std::size_t bytes = std::size_t{8} << 20;
  reserve = std::malloc(bytes);
  std::set_new_handler(give_reserve_back);
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that has gone, and a file beyond its limit, are errors of a write like a full disk:
  // they end with a sentence, and a run with its checkpoint.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  keep_reserve();
  return stagecraft::run_command_line(argc, argv);
}
