#include "profiles/printable.hpp"

#include <cstdlib>

#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("what would act on a terminal is shown as what it is, and letters stay letters") {
  CHECK(printable("plan é 計画 ✔", false) == "plan é 計画 ✔");
  CHECK(printable("a\x1b[2Jb", false) == "a\\x1b[2Jb");
  CHECK(printable("a\r\a\x7f", false) == "a\\x0d\\x07\\x7f");
  CHECK(printable("a\nb\tc", false) == "a\\nb\\tc");
  CHECK(printable("a\nb\tc", true) == "a\nb\tc");
  CHECK(printable("\xc2\x9b"
                  "31m",
                  false) == "\\x9b31m");  // CSI of eight bits, in UTF-8
  CHECK(printable("\xe2\x80\xae"
                  "txt",
                  false) == "\\u202etxt");              // turns the direction around
  CHECK(printable("\xff\xc3", false) == "\\xff\\xc3");  // no UTF-8
}

TEST_CASE("devices without an end are read up to a limit, and what cannot be read is told") {
  REQUIRE(setenv("STAGECRAFT_MEMORY", "8MiB", 1) == 0);
  CHECK_THAT(message_of([] { read_file("/dev/zero"); }),
             ContainsSubstring("/dev/zero: is longer than "));
  unsetenv("STAGECRAFT_MEMORY");
  CHECK_THAT(message_of([] { read_file("/proc/self/mem"); }),
             ContainsSubstring("/proc/self/mem: cannot read: "));
}
