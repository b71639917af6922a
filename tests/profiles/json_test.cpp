#include "profiles/json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

Json parse(const std::string& text) {
  return Json::parse(text, "p.json");
}

const std::string plan = R"({
  "format": "stagecraft-plan/1",
  "stages": [
    {"layers": [0, 4], "über": 1},
    {"layers": [4, "7"], "devices": []}
  ],
  "bandwidth": 25,
  "forward_ns": [100, -1],
  "saved_bytes": 4096
})";

}  // namespace

TEST_CASE("a wrong value is reported with file, line, column, place and expectation") {
  CHECK(message_of([] { parse(plan)["stages"][1]["layers"][1].integer(4); }) ==
        "p.json:5:20: stages[1].layers[1]: expected an integer >= 4, found \"7\"");
  CHECK(message_of([] { parse(plan)["stages"][0]["layers"][1].small_integer(5, 9); }) ==
        "p.json:4:20: stages[0].layers[1]: expected an integer from 5 to 9, found 4");
  // Columns count characters: the umlaut is one of them.
  CHECK_THAT(message_of([] { parse(plan)["stages"][0]["über"].string(); }),
             ContainsSubstring("p.json:4:32: stages[0].über: expected a text, found 1"));
  CHECK_THAT(message_of([] { parse(plan)["stages"].string(); }),
             ContainsSubstring("p.json:3:13: stages: expected a text, found a list"));
  CHECK_THAT(message_of([] { parse(plan)["format"].boolean(); }),
             ContainsSubstring("expected true or false, found \"stagecraft-plan/1\""));
  CHECK_THAT(message_of([] { parse(plan)["format"].number(); }),
             ContainsSubstring("p.json:2:13: format: expected a number"));
  CHECK_THAT(message_of([] { parse(plan)["stages"][2]; }),
             ContainsSubstring("expected at least 3 elements, found 2"));
  CHECK_THAT(message_of([] { parse(plan)["replicas"]; }),
             ContainsSubstring("p.json:1:1: the member \"replicas\" is missing"));
  CHECK_THAT(message_of([] { parse(plan)["format"]["x"]; }),
             ContainsSubstring("expected an object with a member \"x\""));
}

TEST_CASE("unknown members are refused, with a suggestion") {
  CHECK_THAT(message_of([] {
               parse(plan)["stages"][1].allow_only({"layer", "devices"});
             }),
             ContainsSubstring("p.json:5:16: stages[1].layers: unknown member \"layers\"") &&
                 ContainsSubstring("did you mean \"layer\"?"));
  CHECK_NOTHROW(parse(plan)["stages"][1].allow_only({"layers", "devices"}));
}

TEST_CASE("the format of a file is checked") {
  CHECK_NOTHROW(parse(plan).expect_format("stagecraft-plan/1"));
  CHECK_THAT(message_of([] { parse(plan).expect_format("stagecraft-model/1"); }),
             ContainsSubstring("p.json:2:13: format: expected the format \"stagecraft-model/1\""));
}

TEST_CASE("quantities need units, except integers in members that name theirs") {
  CHECK(parse(R"({"t": "10ms"})")["t"].duration() == 10ms);
  CHECK(parse(plan)["forward_ns"][0].duration() == 100ns);
  CHECK(parse(plan)["saved_bytes"].bytes() == 4096);
  CHECK_THAT(message_of([] { parse(plan)["bandwidth"].bandwidth(); }),
             ContainsSubstring("p.json:7:16: bandwidth: bandwidth needs a unit: write \"25GbE\""));
  CHECK_THAT(message_of([] { parse(R"({"t": 10})")["t"].duration(); }),
             ContainsSubstring("write \"10us\""));
  CHECK_THAT(message_of([] { parse(plan)["forward_ns"][1].duration(); }),
             ContainsSubstring("forward_ns[1]: expected an integer >= 0, found -1"));
  CHECK_THAT(message_of([] { parse(R"({"m": true})")["m"].bytes(); }),
             ContainsSubstring("expected a text, found true"));
}

TEST_CASE("integers are neither fractions nor beyond 64 bits") {
  CHECK(parse("[9223372036854775807]")[0].integer() == INT64_MAX);
  CHECK_THAT(message_of([] { parse("[1.5]")[0].integer(); }),
             ContainsSubstring("expected an integer, found 1.5"));
  CHECK_THAT(message_of([] { parse("[9223372036854775808]")[0].integer(); }),
             ContainsSubstring("expected an integer"));
  CHECK_THAT(message_of([] { parse("[1e30]")[0].integer(); }), ContainsSubstring("an integer"));
}

TEST_CASE("bad syntax is reported where it is") {
  CHECK_THAT(message_of([] { parse("{\n \"a\": [1,\n"); }),
             ContainsSubstring("p.json:3:1: not valid JSON") &&
                 ContainsSubstring("unexpected end of input"));
  CHECK_THAT(message_of([] { parse("{\"a\": 1,\n\"b\" 2}"); }),
             ContainsSubstring("p.json:2:5: not valid JSON"));
  CHECK_THAT(message_of([] { parse(""); }), ContainsSubstring("the file is empty"));
  CHECK_THAT(message_of([] { parse("{\"a\": 1} x"); }), ContainsSubstring("p.json:1:10"));
  CHECK_THAT(message_of([] { parse("{\"a\": NaN}"); }), ContainsSubstring("p.json:1:7"));
  CHECK_THAT(message_of([] { parse("[1e999]"); }),
             ContainsSubstring("p.json:1:2: the number 1e999 is beyond what a double can hold"));
  CHECK_THAT(message_of([] { parse("{\"a\": {\"b\": 1,\n  \"b\": 2}}"); }),
             ContainsSubstring("p.json:2:3: the member \"b\" appears twice"));
  CHECK_THAT(message_of([] { parse(std::string(300, '[')); }), ContainsSubstring("too deeply"));
  CHECK_THAT(message_of([] { parse("[\"\xff\"]"); }), ContainsSubstring("not valid JSON"));
  // A name that comes twice, and no colon behind it, is no member yet.
  CHECK_THAT(message_of([] { Json::parse("{\"a\": 1, \"a\"x", "p.json"); }),
             ContainsSubstring("p.json:1:") && ContainsSubstring("not valid JSON"));
}

TEST_CASE("places survive strings that look like structure, and a byte order mark") {
  CHECK_THAT(
      message_of([] {
        parse("\xEF\xBB\xBF{\"a:\\\"{\": [\"]\", {\"b\": \"x\"}]}")["a:\"{"][1]["b"].integer();
      }),
      ContainsSubstring("expected an integer, found \"x\""));
  CHECK_THAT(message_of([] { parse("[\"a\\\\\", \"b\\\"]\", 3]")[2].string(); }),
             ContainsSubstring("p.json:1:17: [2]"));
}

TEST_CASE("text is laid out for people and always the same") {
  const auto value = nlohmann::ordered_json::parse(
      R"({"b":{"x":1,"y":[1,2]},"stages":[{"layers":[0,4],"devices":[[0],[1]]},{"layers":[4,9]}],
          "a":0.1,"none":[],"empty":{}})");
  CHECK(to_text(value) == R"({
  "b": {"x": 1, "y": [1, 2]},
  "stages": [
    {"layers": [0, 4], "devices": [[0], [1]]},
    {"layers": [4, 9]}
  ],
  "a": 0.1,
  "none": [],
  "empty": {}
}
)");
  nlohmann::ordered_json numbers;
  for (int i = 0; i < 100; ++i) numbers["list"].push_back(1000 + i);
  for (const std::string& line : {to_text(numbers)}) {
    CHECK(nlohmann::ordered_json::parse(line) == numbers);
  }
  std::istringstream lines(to_text(numbers));
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  CHECK_THROWS_AS(to_text(nlohmann::ordered_json(NAN)), Error);
}

TEST_CASE("a file is written as a whole or not at all") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.json", "old");
  write_file(path, "new");
  CHECK(read_file(path) == "new");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  CHECK_THAT(message_of([&] { write_file(folder.path() / "no" / "b.json", "x"); }),
             ContainsSubstring("no/b.json: cannot write: No such file or directory"));
  CHECK_THAT(message_of([&] { write_file(folder.path(), "x"); }),
             ContainsSubstring("cannot write"));
  CHECK_THAT(message_of([&] { write_file("/dev/full", "x"); }),
             ContainsSubstring("/dev/full: cannot write: No space left on device"));
  CHECK(exit_code_of([&] { write_file("/dev/full", "x"); }) == 5);
  CHECK(exit_code_of([&] { write_file(folder.path() / "no" / "b.json", "x"); }) == 5);
  CHECK(exit_code_of([&] { require_writable(folder.path() / "no" / "b.json"); }) == 5);
}

TEST_CASE("a file that cannot be read is named") {
  const TemporaryFolder folder;
  CHECK_THAT(message_of([&] { read_file(folder.path() / "no.json"); }),
             ContainsSubstring("no.json: cannot read: No such file or directory"));
  CHECK_THAT(message_of([&] { read_file(folder.path()); }), ContainsSubstring("Is a directory"));
  CHECK(exit_code_of([&] { Json::read(folder.path() / "no.json"); }) == 3);
}

TEST_CASE("contents are named by their XXH3-128 hash") {
  CHECK(content_hash("") == "xxh3:99aa06d3014798d86001c324468d497f");
  CHECK(content_hash("a") != content_hash("b"));
}
