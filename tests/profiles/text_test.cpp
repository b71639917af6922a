#include "profiles/text.hpp"

#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("a mistyped word suggests the nearest known one, within a third of its length") {
  const std::vector<std::string> known{"1f1b", "gpipe", "interleaved", "chimera"};
  CHECK(closest("1b1f", known) == "1f1b");  // two substitutions away, two allowed
  CHECK(closest("1f1", known) == "1f1b");
  CHECK(closest("gpipe", known) == "gpipe");
  CHECK(closest("gpiep", known) == "gpipe");  // one swap
  CHECK(closest("GPipe", known) == "gpipe");
  CHECK(closest("interlaeved", known) == "interleaved");
  CHECK(closest("intrlvd", known).empty());  // four away, three allowed
  CHECK(closest("", known).empty());
  CHECK(closest("gpt2", {"bert-base", "gpt2-124m", "gpt2-350m"}) == "gpt2-124m");  // a family
  CHECK(closest("x", {}).empty());
}

TEST_CASE("an unknown word is a usage error that lists the known ones") {
  const auto action = [] { fail_unknown("schedule", "gpip", {"1f1b", "gpipe"}); };
  CHECK(message_of(action) ==
        "unknown schedule \"gpip\"; known schedules: 1f1b gpipe; did you mean \"gpipe\"?");
  CHECK(exit_code_of(action) == 2);
  CHECK_THAT(message_of([] { fail_unknown("way to recompute", "x", {"full"}); }),
             ContainsSubstring("known ways to recompute: full"));
  CHECK_THAT(message_of([] { fail_unknown("property of a link", "x", {"latency"}); }),
             ContainsSubstring("known properties of a link: latency"));
}

TEST_CASE("words join, split and trim") {
  CHECK(join_words({}).empty());
  CHECK(join_words({"a"}) == "a");
  CHECK(join_words({"a", "b"}) == "a and b");
  CHECK(join_words({"a", "b", "c"}) == "a, b and c");
  CHECK(split("", ',').empty());
  CHECK(split("a,,b,", ',') == std::vector<std::string>{"a", "", "b", ""});
  CHECK(trim(" \t a b\r\n") == "a b");
  CHECK(trim(" \n ").empty());
}

TEST_CASE("thousands of tokens are written out") {
  CHECK(with_thousands_written_out("32k") == "32768");
  CHECK(with_thousands_written_out("128K") == "131072");
  for (const char* other : {"", "k", "4096", "1.5k", "-2k", "4kk", "32m"})
    CHECK(with_thousands_written_out(other) == other);
}

TEST_CASE("an error knows its kind, its place and its help") {
  const Error error(ErrorKind::input, "too many", SourcePlace{"plan.json", 14, 18}, {"use fewer"});
  CHECK(std::string(error.what()) == "plan.json:14:18: too many");
  CHECK(error.message() == "too many");
  CHECK(error.help() == std::vector<std::string>{"use fewer"});
  CHECK(message_of([] { fail("device ", 3, " is used twice"); }) == "device 3 is used twice");
  CHECK(message_of([] {
          throw Error(ErrorKind::input, "no such file", SourcePlace{"a.json", 0, 0});
        }) == "a.json: no such file");
}

TEST_CASE("each kind of error has its exit code") {
  CHECK(exit_code(ErrorKind::bug) == 1);
  CHECK(exit_code(ErrorKind::usage) == 2);
  CHECK(exit_code(ErrorKind::input) == 3);
  CHECK(exit_code(ErrorKind::infeasible) == 4);
  CHECK(exit_code(ErrorKind::execution) == 5);
  CHECK(exit_code(ErrorKind::check) == 6);
}
