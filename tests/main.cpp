// The main function of every test executable.

#define CATCH_CONFIG_RUNNER
#include "tests/catch.hpp"

// Catch2 ends with the number of failures, which could be mistaken for the 77 that tells CTest
// "skipped".
int main(int argc, char** argv) {
  if (Catch::Session().run(argc, argv) != 0) return 1;
  return stagecraft::tests::skipped ? 77 : 0;
}
