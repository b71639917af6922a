#include "executor/flight/record.hpp"

#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <random>

#include "executor/flight/layout.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/executor/flight/flight_records.hpp"
#include "tests/executor/tiny_training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

const Program& two_stages() {
  static const Program program = lower(one_f_one_b({.devices = 2, .microbatches = 8}));
  return program;
}

void write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("a flight record tells who writes it, what it does and what it did before") {
  const Folder folder("records");
  Flights flights(two_stages(), folder.path());
  for (int m = 0; m < 8; ++m) {
    flights.begin(1, "F1." + std::to_string(m));
    flights.begin(1, "B1." + std::to_string(m));
  }
  flights.begin(1, "U1.7");
  flights.receive(1, 0);
  const FlightSnapshot record = read_flight_record(folder.path() / "rank-1.flight");
  CHECK(record.rank == 1);
  CHECK(record.ranks == 2);
  CHECK(record.name == "rank 1 (stage 1, replica 0)");
  CHECK(record.pid == getpid());
  CHECK(record.plan_hash == "xxh3:1");
  CHECK(record.doing == Doing::receiving);
  CHECK(record.phase == Doing::computing);
  CHECK(record.peer == 0);
  CHECK(record.step == 2);
  CHECK(to_string(*record.instruction) == "U1.7");
  CHECK(record.since >= record.work_since);
  REQUIRE(record.recent.size() == 16);
  CHECK(to_string(record.recent.front().instruction) == "B1.0");
  CHECK(to_string(record.recent.back().instruction) == "U1.7");
  flights[1].go_on();
  CHECK(read_flight_record(flights[1].bytes(), "").doing == Doing::computing);
}

TEST_CASE("records of a larger run before are not taken for those of this one") {
  const Folder folder("stale");
  { const Flights four(lower(one_f_one_b({.devices = 4, .microbatches = 4})), folder.path()); }
  const Flights two(two_stages(), folder.path());
  const FlightRecords records = read_flight_records(folder.path());
  CHECK(records.ranks.size() == 2);
  CHECK(records.problems.empty());
}

TEST_CASE("damaged, missing and foreign flight records are named, and the others are read") {
  const Folder folder("damaged");
  const Flights flights(lower(one_f_one_b({.devices = 4, .microbatches = 4})), folder.path());
  const std::string whole = read_file(folder.path() / "rank-0.flight");
  write(folder.path() / "rank-0.flight", whole.substr(0, whole.size() / 2));
  write(folder.path() / "rank-1.flight", "a letter to somebody");
  std::filesystem::remove(folder.path() / "rank-2.flight");
  const FlightRecords records = read_flight_records(folder.path());
  CHECK(records.ranks.size() == 1);
  REQUIRE(records.problems.size() == 3);
  CHECK_THAT(records.problems[0],
             ContainsSubstring("rank-0.flight: the flight record is cut short"));
  CHECK_THAT(records.problems[1], ContainsSubstring("rank-1.flight: is no flight record"));
  CHECK_THAT(records.problems[2],
             ContainsSubstring("rank-2.flight: is missing; the run has 4 ranks"));
  write(folder.path() / "rank-3.flight", "");
  CHECK_THROWS_WITH(read_flight_records(folder.path()), ContainsSubstring("cut short"));
  CHECK_THROWS_WITH(read_flight_records(folder.path() / "none"),
                    ContainsSubstring("cannot be read as a folder"));
  std::filesystem::create_directory(folder.path() / "empty");
  CHECK_THROWS_WITH(read_flight_records(folder.path() / "empty"),
                    ContainsSubstring("has no flight records"));
}

TEST_CASE("a pipe under the name of a flight record keeps nobody waiting") {
  const Folder folder("pipe");
  const Flights flights(two_stages(), folder.path());
  const std::filesystem::path pipe = folder.path() / "rank-1.flight";
  std::filesystem::remove(pipe);
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const FlightRecords records = read_flight_records(folder.path());
  CHECK(records.ranks.size() == 1);
  REQUIRE(records.problems.size() == 1);
  CHECK_THAT(records.problems[0],
             ContainsSubstring("rank-1.flight: is no ordinary file; remove it"));
}

TEST_CASE("no damage to a record does more than an error of input") {
  const Folder folder("noise");
  const Flights flights(two_stages(), folder.path());
  const std::string whole = read_file(folder.path() / "rank-0.flight");
  std::mt19937 random(1);
  int refused = 0;
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string damaged = whole;
    for (int i = 0; i < 4; ++i)
      damaged[random() % (attempt % 2 ? 400 : damaged.size())] = static_cast<char>(random());
    write(folder.path() / "damaged.flight", damaged);
    try {
      const FlightSnapshot record = read_flight_record(folder.path() / "damaged.flight");
      CHECK(record.recent.size() <= 16);
      const std::vector<Sight> sights{see(record, now())};
      CHECK_FALSE(diagnose(sights).sentence.empty());
    } catch (const Error& error) {
      ++refused;
      CHECK(error.kind() == ErrorKind::input);
    }
  }
  CHECK(refused > 20);
}

TEST_CASE("a record with a number that no rank writes is damaged, wherever the number is") {
  const Folder folder("numbers");
  Flights flights(two_stages(), folder.path());
  flights.begin(0, "F0.0");
  flights[0].fail(Cause::error, "the cable is cut");
  const std::string whole = read_file(folder.path() / "rank-0.flight");
  flight::Prefix prefix{};
  std::memcpy(&prefix, whole.data(), sizeof prefix);
  const std::int64_t number = 1'000'000'000'000'000'000;
  // Those of the state that were written, but the first, which counts changes.
  flight::State state{};
  std::memcpy(static_cast<void*>(&state), whole.data() + prefix.state_at, sizeof state);
  const auto* first = reinterpret_cast<const char*>(&state);
  int refused = 0;
  for (const flight::Number* damaged :
       {&state.doing, &state.peer, &state.place, &state.work, &state.op, &state.stage,
        &state.microbatch, &state.step, &state.phase, &state.recent[0].step, &state.recent[0].op,
        &state.recent[0].stage, &state.recent[0].microbatch, &state.cause, &state.words}) {
    std::string bytes = whole;
    const auto at = static_cast<std::size_t>(reinterpret_cast<const char*>(damaged) - first);
    std::memcpy(bytes.data() + prefix.state_at + at, &number, sizeof number);
    write(folder.path() / "damaged.flight", bytes);
    INFO("byte " << at);
    CHECK_THROWS_WITH(read_flight_record(folder.path() / "damaged.flight"),
                      ContainsSubstring("damaged.flight: the flight record is damaged: expected") &&
                          ContainsSubstring(", found 1000000000000000000"));
    ++refused;
  }
  CHECK(refused == 15);
}

TEST_CASE("a folder that cannot be written is one sentence") {
  CHECK_THROWS_WITH(
      Flights(two_stages(), "/proc/nowhere"),
      ContainsSubstring("--flight-records: cannot write /proc/nowhere/rank-0.flight"));
}

TEST_CASE("after a run its records say that all have ended, and after which step") {
  const Folder folder("ended");
  const Prepared prepared = prepare({.devices = 2, .replicas = {2, 1}});
  run(prepared, {.steps = 3, .oversight = {.flight_records = folder.path()}});
  const FlightRecords records = read_flight_records(folder.path());
  REQUIRE(records.ranks.size() == 3);
  CHECK(records.problems.empty());
  for (const FlightSnapshot& record : records.ranks) {
    CHECK(record.doing == Doing::ended);
    CHECK(record.step == 2);
    CHECK(record.recent.back().instruction.op == Op::update);
  }
}
