// Runs that are killed, stopped and interrupted: what they say, how they end, and that they go on
// where they were. The suite takes a few seeds; tests_faults '[hundred]' takes a hundred.

#include <algorithm>
#include <chrono>
#include <iostream>
#include <random>
#include <string>

#include "profiles/units.hpp"
#include "tests/catch.hpp"
#include "tests/executor/flight/flight_records.hpp"
#include "tests/faults/small_run.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

constexpr int all_steps = 20;

/// Kills a run once, somewhere; it ends with the weights of one that was left alone. Whether the
/// kill came in time.
bool check_killed_once(const Fixture& fixture, const std::string& whole, unsigned seed) {
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::filesystem::remove_all(fixture.records());
  ProgramRun run(fixture.folder.path(), fixture.run(all_steps, {"--restarts", "3"}));
  const int rank = static_cast<int>(random() % 2), step = static_cast<int>(random() % 12);
  const auto record = await_step(fixture.records(), rank, step);
  REQUIRE(record);
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
  kill(record->pid, SIGKILL);
  CHECK(run.wait() == 0);
  CHECK(value_of(run.output(), "parameters_xxh3") == whole);
  const std::string restarts = value_of(run.output(), "restarts");
  CHECK((restarts == "1" || restarts == "0"));
  CHECK(lines_with(run.errors(), "was killed by signal 9 (Killed) ") == (restarts == "1"));
  CHECK(lines_with(run.errors(), "") == (restarts == "1"));
  CHECK_FALSE(is_running(record->pid));
  return restarts == "1";
}

/// Stops a run that may not be started again; returns how long its end took.
Duration check_stopped(const Fixture& fixture, unsigned seed) {
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::filesystem::remove_all(fixture.records());
  ProgramRun run(fixture.folder.path(), fixture.run(100000, {"--restarts", "0"}));
  const auto record = await_step(fixture.records(), static_cast<int>(random() % 2), 0);
  REQUIRE(record);
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 100'000));
  kill(record->pid, SIGSTOP);
  const Moment stopped = now();
  CHECK(run.wait() == 5);
  const Duration time = now() - stopped;
  CHECK(time < 5s);
  CHECK(lines_with(run.errors(), "error: rank ") == 1);
  CHECK_THAT(run.errors(), ContainsSubstring(" is silent: its process ") &&
                               ContainsSubstring(" was stopped, or is no more, 3"));
  CHECK(all_end({record->pid}, 1s));
  return time;
}

}  // namespace

TEST_CASE("a run that is killed is started again and ends with the same weights", "[seconds]") {
  const Fixture fixture("killed");
  const std::string whole = fixture.parameters(all_steps);
  int killed = 0;
  for (unsigned seed = 1; seed <= 5; ++seed) killed += check_killed_once(fixture, whole, seed);
  CHECK(killed > 0);
}

TEST_CASE("a run that is killed a hundred times", "[.hundred]") {
  const Fixture fixture("hundred");
  const std::string whole = fixture.parameters(all_steps);
  int killed = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) killed += check_killed_once(fixture, whole, seed);
  std::cout << killed << " of 100 runs were killed before they ended\n";
  CHECK(killed > 50);
}

TEST_CASE("a run that is killed more often than it may be started again says who, where and when",
          "[seconds]") {
  const Fixture fixture("killed-twice");
  ProgramRun run(fixture.folder.path(), fixture.run(100000, {"--restarts", "1"}));
  const auto first = await_step(fixture.records(), 0, 0);
  REQUIRE(first);
  kill(first->pid, SIGKILL);
  const auto second = await_step(fixture.records(), 0, 0, first->pid);
  REQUIRE(second);
  kill(second->pid, SIGKILL);
  const Moment killed = now();
  CHECK(run.wait() == 5);
  CHECK(now() - killed < 5s);
  CHECK(lines_with(run.errors(), "warning: rank ") == 1);
  CHECK(lines_with(run.errors(), "restart 1 of 1, from the beginning") == 1);
  CHECK(lines_with(run.errors(), "error: rank ") == 1);
  CHECK(lines_with(run.errors(), "(after 1 restart)") == 1);
  CHECK_THAT(run.output(), ContainsSubstring("\"kind\": \"execution\""));
}

TEST_CASE("a run that is killed goes on from its last checkpoint", "[seconds]") {
  const Fixture fixture("checkpoints");
  const std::string whole = fixture.parameters(all_steps);
  std::filesystem::remove_all(fixture.records());
  ProgramRun run(fixture.folder.path(), fixture.run(all_steps, {"--restarts", "1", "--checkpoint",
                                                                "kept", "--every", "5"}));
  const auto record = await_step(fixture.records(), 1, 8);
  REQUIRE(record);
  kill(record->pid, SIGKILL);
  CHECK(run.wait() == 0);
  CHECK(value_of(run.output(), "parameters_xxh3") == whole);
  CHECK(value_of(run.output(), "restarts") == "1");
  // At most the steps since the last checkpoint are done again.
  const int step = std::stoi("0" + value_of(run.output(), "step"));
  CHECK(step >= record->step.value_or(0) / 5 * 5);
  CHECK(lines_with(run.errors(), "; restart 1 of 1, from kept/step-0000") == 1);
}

TEST_CASE("processes that meet by TCP notice when one of them is killed", "[seconds]") {
  const Fixture fixture("tcp");
  for (const int rank : {0, 1}) {
    INFO("rank " << rank);
    std::filesystem::remove_all(fixture.records());
    ProgramRun run(fixture.folder.path(), fixture.run(100000, {"--transport", "tcp"}));
    const auto killed = await_step(fixture.records(), rank, 2);
    const auto other = await_step(fixture.records(), 1 - rank, 2);
    REQUIRE((killed && other));
    kill(killed->pid, SIGKILL);
    const Moment then = now();
    CHECK(all_end({other->pid}, 1500ms));  // whoever waits for them would kill it only after two
    CHECK(run.wait() == 5);
    CHECK(now() - then < 5s);
    CHECK(lines_with(run.errors(), concat("error: run: rank ", rank, " on ")) == 1);
    CHECK(lines_with(run.errors(), "was killed by signal 9 (Killed); the others have stopped") ==
          1);
  }
}

TEST_CASE("a run that is stopped ends within five seconds", "[seconds]") {
  const Fixture fixture("stopped");
  for (unsigned seed = 1; seed <= 2; ++seed) check_stopped(fixture, seed);
}

TEST_CASE("a run that is stopped twenty times", "[.hundred]") {
  const Fixture fixture("twenty");
  std::vector<Duration> times;
  for (unsigned seed = 1; seed <= 20; ++seed) times.push_back(check_stopped(fixture, seed));
  std::ranges::sort(times);
  std::cout << "from the stop to the end: median " << format_duration(times[10]) << ", worst "
            << format_duration(times.back()) << "\n";
}

TEST_CASE("whoever ends the supervisor ends its run, and nobody is left behind", "[seconds]") {
  const Fixture fixture("orphans");
  const auto [number, code] = GENERATE(table<int, int>({{SIGKILL, 137}, {SIGTERM, 143}}));
  std::filesystem::remove_all(fixture.records());
  ProgramRun run(fixture.folder.path(), fixture.run(100000, {"--restarts", "3"}));
  const auto record = await_step(fixture.records(), 0, 0);
  REQUIRE(record);
  CHECK(record->pid != run.pid());
  kill(run.pid(), number);
  CHECK(run.wait() == code);
  CHECK(all_end({record->pid}, 5s));
}

TEST_CASE("a run that diverges is not started again", "[seconds]") {
  const Fixture fixture("diverges");
  ProgramRun run(fixture.folder.path(),
                 fixture.run(50, {"--restarts", "3", "--learning-rate", "1e30"}));
  CHECK(run.wait() == 5);
  CHECK(lines_with(run.errors(), "error: rank ") == 1);
  CHECK(lines_with(run.errors(), "not finite") == 1);
  CHECK(lines_with(run.errors(), "restart") == 0);
}

TEST_CASE("mistakes are told once, by the run itself, whoever supervises it", "[seconds]") {
  const Fixture fixture("mistakes");
  ProgramRun usage(fixture.folder.path(), fixture.run(1, {"--restarts", "3", "--backend", "gpu"}));
  CHECK(usage.wait() == 2);
  CHECK(lines_with(usage.errors(), "error: ") == 1);
  ProgramRun input(fixture.folder.path(), {"run", "nowhere.json", "--restarts", "3"});
  CHECK(input.wait() == 3);
  CHECK(lines_with(input.errors(), "error: ") == 1);
}
