// A plan's answer that a signal has cut short says so, also where its search had ended before.

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "profiles/units.hpp"
#include "tests/catch.hpp"
#include "tests/faults/small_run.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

TEST_CASE("a plan that is interrupted after its search says so in its document", "[seconds]") {
  const Folder folder("interrupted-plan");
  ProgramRun plan(folder.path(), {"plan", "llama3-8b", "8x8xh100", "--batch", "1024", "--gap",
                                  "50%", "--compare-frameworks", "on", "--json", "-o", "p.json"});
  // The file is written once the search has ended; what stands beside the plan takes seconds more.
  for (int i = 0; i < 6000 && !std::filesystem::exists(folder.path() / "p.json"); ++i)
    std::this_thread::sleep_for(10ms);
  REQUIRE(std::filesystem::exists(folder.path() / "p.json"));
  kill(plan.pid(), SIGINT);
  CHECK(plan.wait() == 130);
  CHECK(value_of(plan.output(), "interrupted") == "true");
}

TEST_CASE("a plan whose search a limit has ended says so in its document, and no other") {
  const Folder folder("limited-plan");
  const auto interrupted = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"plan", "tiny-gpt", "2xcpu", "--batch", "8", "--json"});
    ProgramRun plan(folder.path(), words);
    REQUIRE(plan.wait() == 0);
    return value_of(plan.output(), "interrupted");
  };
  CHECK(interrupted({"--strategy", "brute-force", "--time-limit", "1s"}) == "true");
  CHECK(interrupted({"--straight", "--schedule", "1f1b"}) == "false");
}
