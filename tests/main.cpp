// The main function of every test executable.

#define CATCH_CONFIG_RUNNER
#include <iostream>

#include "tests/catch.hpp"

// Where each piece of memory came from takes the address sanitizer most of its time. Who wants to
// know asks again: ASAN_OPTIONS=malloc_context_size=30.
extern "C" const char* __asan_default_options() {
  return "malloc_context_size=0";
}

namespace {

int cases = 0;
int skipped_cases = 0;

// Counts the test cases, and those that were skipped.
class SkipCounter : public CatchListener {
 public:
  using CatchListener::CatchListener;
  void testCaseEnded(const Catch::TestCaseStats&) override {
    ++cases;
    if (stagecraft::tests::skipped) ++skipped_cases;
    stagecraft::tests::skipped = false;
  }
};
CATCH_REGISTER_LISTENER(SkipCounter)

}  // namespace

// Catch2 ends with the number of failures, which could be mistaken for the 77 that tells CTest
// "skipped". It is said where every case was skipped; where some were, how many.
int main(int argc, char** argv) {
  if (Catch::Session().run(argc, argv) != 0) return 1;
  if (skipped_cases == 0) return 0;
  std::cout << skipped_cases << " of " << cases << " test cases skipped\n";
  return skipped_cases == cases ? 77 : 0;
}
