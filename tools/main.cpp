// stagecraft VERB …

#include <csignal>

#include "tools/command_line.hpp"

int main(int argc, char** argv) {
  // A reader that has gone, and a file beyond its limit, are errors of a write like a full disk:
  // they end with a sentence, and a run with its checkpoint.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  return stagecraft::run_command_line(argc, argv);
}
