#include "executor/flight/diagnosis.hpp"

#include "tests/catch.hpp"
#include "tests/executor/flight/flight_records.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Program pipeline(int devices) {
  return lower(one_f_one_b({.devices = devices, .microbatches = 4}));
}

}  // namespace

TEST_CASE("all wait for one rank, directly or through others") {
  const Program program = pipeline(4);
  Flights flights(program);
  flights.begin(0, "F0.3");
  flights.begin(1, "F1.1");
  flights.begin(2, "F2.1");
  flights.receive(2, 1);
  flights.begin(3, "F3.1");
  flights.receive(3, 2);
  flights.begin(0, "B0.0");
  flights.receive(0, 1);
  const Diagnosis diagnosis = diagnose(flights.sights());
  CHECK(diagnosis.verdict == Verdict::held_up);
  CHECK(diagnosis.rank == 1);
  CHECK_THAT(diagnosis.sentence,
             ContainsSubstring("rank 1 (stage 1, replica 0) computes F1.1 in step 3 since ") &&
                 ContainsSubstring("; rank 0 and rank 2 wait for it, and 1 more through them"));
  const auto sights = flights.sights();
  CHECK(waits_for(sights[3], sights) == std::vector<int>{2});
  CHECK(describe_doing(sights[0], sights) == "waits in B0.0 for a message from rank 1");
}

TEST_CASE("ranks that wait for each other are named in their order") {
  const Program program = pipeline(3);
  Flights flights(program);
  flights.begin(0, "F0.0");
  flights.send(0, 1);
  flights.begin(1, "B1.0");
  flights.receive(1, 2);
  flights.begin(2, "F2.0");
  flights.send(2, 1);
  const Diagnosis diagnosis = diagnose(flights.sights());
  CHECK(diagnosis.verdict == Verdict::cycle);
  CHECK(diagnosis.cycle == std::vector<int>{1, 2});
  CHECK(diagnosis.sentence ==
        "ranks wait for each other: rank 1 (stage 1, replica 0) waits in B1.0 for a message from "
        "rank 2 and rank 2 (stage 2, replica 0) waits in F2.0 until rank 1 takes a message");
}

TEST_CASE("a message that was sent and never came is called lost, not its innocent sender") {
  const Program program = pipeline(2);
  Flights flights(program);
  flights[0].count_message(Doing::sending, flights.channel(0, 1));
  flights.begin(0, "B0.0");
  flights.receive(0, 1);
  flights.begin(1, "F1.0");
  flights.receive(1, 0);
  CHECK(diagnose(flights.sights()).verdict == Verdict::lost);
  CHECK_THAT(diagnose(flights.sights()).sentence,
             ContainsSubstring("rank 1 (stage 1, replica 0) waits during F1.0 in step 3 since ") &&
                 ContainsSubstring("for a message that rank 0 has sent: it was lost on its way; "
                                   "rank 0 waits for it"));
  flights[1].count_message(Doing::receiving, flights.channel(0, 1));
  CHECK(diagnose(flights.sights()).verdict == Verdict::cycle);
}

TEST_CASE("members of a group, and all at a barrier, wait for those who have not come") {
  const Program program =
      lower(one_f_one_b({.devices = 1, .microbatches = 2}), {.replicas = {{0, 1, 2}}, .rows = 3});
  Flights flights(program);
  flights[0].wait(Doing::meeting, 0, {});
  flights[2].wait(Doing::meeting, 0, {});
  CHECK(diagnose(flights.sights()).rank == 1);
  auto sights = flights.sights();
  CHECK(waits_for(sights[0], sights) == std::vector<int>{1});
  flights[1].wait(Doing::meeting, 0, {});
  for (int rank = 0; rank < 3; ++rank) flights[rank].go_on();
  flights[0].wait(Doing::barrier, -1, {});
  flights[1].wait(Doing::barrier, -1, {});
  sights = flights.sights();
  CHECK(waits_for(sights[0], sights) == std::vector<int>{2});
  CHECK(diagnose(sights).rank == 2);
  CHECK(describe_doing(sights[1], sights) == "waits for rank 2 to begin the step");
}

TEST_CASE("who failed first is told, with its own words") {
  const Program program = pipeline(3);
  Flights flights(program);
  flights[1].fail(Cause::error, "the cable is cut");
  flights[2].fail(Cause::error, "rank 1 is gone");
  flights[1].fail(Cause::stalled, "too late to count");
  const Diagnosis diagnosis = diagnose(flights.sights());
  CHECK(diagnosis.verdict == Verdict::failed);
  CHECK(diagnosis.rank == 1);
  CHECK(diagnosis.sentence == "the cable is cut");
}

TEST_CASE("a process that shows no sign of life is silent, one that has ended is not") {
  const Program program = pipeline(2);
  Flights flights(program);
  flights.begin(1, "F1.0");
  flights.receive(1, 0);
  std::vector<Sight> sights;
  for (const auto& rank : flights.ranks) {
    sights.push_back(see(read_flight_record(rank->bytes(), ""), now() + longest_silence * 2));
  }
  CHECK(diagnose(sights).verdict == Verdict::silent);
  CHECK_THAT(diagnose(sights).sentence,
             ContainsSubstring("rank 0 (stage 0, replica 0) is silent") &&
                 ContainsSubstring("rank 1 waits for it"));
  sights[0].silent = false;
  sights[0].record.doing = Doing::ended;
  CHECK(diagnose(sights).rank == 1);
  for (int rank = 0; rank < 2; ++rank) flights[rank].begin(Doing::ended);
  CHECK(diagnose(flights.sights()).verdict == Verdict::ended);
}
