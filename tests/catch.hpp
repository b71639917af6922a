// Catch2, whichever version there is: tests include this, never Catch2 itself.
//
// Debian 12 has version 2, Ubuntu 24.04 version 3. Write what both have; this header levels the
// rest: `Approx` and `ContainsSubstring` need no namespace, `GENERATE(from_range(table))` works as
// it stands, and `SKIP("no GPU")` ends a test that cannot run here. (SKIP returns, so use it in the
// test itself, not in a helper.) A test's name holds no `;`, `[` or `]`: CMake would misread it.

#pragma once

#define CATCH_CONFIG_ENABLE_ALL_STRINGMAKERS

#include <string>

#if __has_include(<catch2/catch_all.hpp>)

#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using CatchListener = Catch::EventListenerBase;

#else

#include <catch2/catch.hpp>
// NOLINTNEXTLINE(readability-identifier-naming): as version 3 calls it
inline auto ContainsSubstring(const std::string& text) {
  return Catch::Matchers::Contains(text);
}
#ifdef CATCH_CONFIG_RUNNER
using CatchListener = Catch::TestEventListenerBase;
#endif

#endif

namespace stagecraft::tests {

/// Whether the test case that runs was skipped.
inline bool skipped = false;

}  // namespace stagecraft::tests

#undef SKIP
#define SKIP(reason)                   \
  do {                                 \
    stagecraft::tests::skipped = true; \
    WARN("skipped: " << (reason));     \
    return;                            \
  } while (false)
