// stagecraft VERB …

#include "tools/command_line.hpp"

int main(int argc, char** argv) {
  return stagecraft::run_command_line(argc, argv);
}
