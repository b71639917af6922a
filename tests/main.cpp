// The main function of every test executable.

#define CATCH_CONFIG_RUNNER
#include "tests/catch.hpp"

// Where each piece of memory came from takes the address sanitizer most of its time. Who wants to
// know asks again: ASAN_OPTIONS=malloc_context_size=30.
extern "C" const char* __asan_default_options() {
  return "malloc_context_size=0";
}

// Catch2 ends with the number of failures, which could be mistaken for the 77 that tells CTest
// "skipped".
int main(int argc, char** argv) {
  if (Catch::Session().run(argc, argv) != 0) return 1;
  return stagecraft::tests::skipped ? 77 : 0;
}
