// Deadlock with blocking, unbuffered sends: the cycle, and what cures it.

#include "profiles/error.hpp"
#include "simulator/checks/check.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/check_reports.hpp"
#include "tests/simulator/check_settings.hpp"
#include "tests/simulator/hand_made.hpp"
#include "tests/simulator/mutations.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("check: two communications that change places deadlock, and the cycle is named") {
  Program program = lowered({.schedule = "gpipe", .devices = 2, .microbatches = 4});
  swap_in_order(program, find_work(program, "SF0.1", 0), find_work(program, "SF0.2", 0));
  const CheckReport report = check(program);
  INFO(all_messages(report));
  REQUIRE(rules(report) == std::vector<std::string>{"deadlock"});
  CHECK(report.findings[0].cycle ==
        std::vector<std::string>{"device 0 waits at SF0.2 for device 1 to reach RF1.2",
                                 "device 1 waits at RF1.1 for device 0 to reach SF0.1"});
  CHECK(report.findings[0].fix == "swapping RF1.1 and RF1.2 on device 1 cures it");
}

TEST_CASE("check: a swap of neighbouring messages of one channel deadlocks in every schedule") {
  const std::string schedule = GENERATE("gpipe", "1f1b", "interleaved");
  const Program program = lowered({.schedule = schedule,
                                   .devices = 4,
                                   .microbatches = 8,
                                   .virtual_stages = schedule == "interleaved" ? 2 : 1});
  for (int device = 0; device < 3; ++device) {
    for (const int microbatch : {1, 5}) {
      Program mutant = program;
      const std::string send = "SF" + std::to_string(device) + ".";
      swap_in_order(mutant, find_work(mutant, send + std::to_string(microbatch), device),
                    find_work(mutant, send + std::to_string(microbatch + 1), device));
      const CheckReport report = check(mutant);
      INFO(schedule << " device " << device << "\n" << all_messages(report));
      CHECK(found(report, "deadlock"));
    }
  }
}

TEST_CASE("check: collectives issued in different orders deadlock") {
  Program program = lowered({.schedule = "gpipe",
                             .devices = 2,
                             .microbatches = 1,
                             .replicas = {2, 2},
                             .rows = 2,
                             .ties = {{.owner = 0, .user = 1, .bytes = 8}}});
  REQUIRE(check(program).safe());
  swap_in_order(program, find_work(program, "G0.0", 1), find_work(program, "T0.0", 1));
  const CheckReport report = check(program);
  CHECK(found(report, "deadlock"));
}

TEST_CASE("check: two ranks that both send first are reported with their cycle and the cure") {
  // Device 0 sends F0.1 before it takes B0.0's gradient; device 1 sends that gradient before it
  // takes F1.1's input.
  Builder builder(2, 2);
  const int f00 = builder.add(Op::forward, 0, 0);
  const int f01 = builder.add(Op::forward, 0, 1);
  const int s00 = builder.add(Op::send_activation, 0, 0, {f00});
  const int s01 = builder.add(Op::send_activation, 0, 1, {f01});
  const int r10 = builder.add(Op::receive_activation, 1, 0, {s00});
  const int f10 = builder.add(Op::forward, 1, 0, {r10});
  const int b10 = builder.add(Op::backward, 1, 0, {f10});
  const int sb0 = builder.add(Op::send_gradient, 1, 0, {b10});
  const int r11 = builder.add(Op::receive_activation, 1, 1, {s01});
  const int f11 = builder.add(Op::forward, 1, 1, {r11});
  const int b11 = builder.add(Op::backward, 1, 1, {f11});
  const int sb1 = builder.add(Op::send_gradient, 1, 1, {b11});
  const int rb0 = builder.add(Op::receive_gradient, 0, 0, {sb0});
  const int b00 = builder.add(Op::backward, 0, 0, {rb0});
  const int rb1 = builder.add(Op::receive_gradient, 0, 1, {sb1});
  const int b01 = builder.add(Op::backward, 0, 1, {rb1});
  builder.add(Op::update, 0, 1, {b00, b01});
  builder.add(Op::update, 1, 1, {b10, b11});
  const CheckReport report = check(builder.program);
  INFO(all_messages(report));
  REQUIRE(rules(report) == std::vector<std::string>{"deadlock"});
  const Finding& finding = report.findings[0];
  CHECK(finding.cycle ==
        std::vector<std::string>{"device 0 waits at SF0.1 for device 1 to reach RF1.1",
                                 "device 1 waits at SB1.0 for device 0 to reach RB0.0"});
  CHECK(finding.message ==
        "deadlock with blocking, unbuffered sends: device 0 waits at SF0.1 for device 1 to reach "
        "RF1.1; device 1 waits "
        "at SB1.0 for device 0 to reach RB0.0");
  CHECK(finding.fix ==
        "swapping SB1.0 and RF1.1 on device 1 cures it; safe with 1 message in flight per channel");
  CHECK(check(builder.program, {.memory_limits = {}, .messages_in_flight = 1}).safe());
  CHECK_THROWS_AS(require_safe(builder.program), Error);

  swap_in_order(builder.program, sb0, r11);
  CHECK(check(builder.program).safe());
}

TEST_CASE("check: waiting for oneself is a cycle of one") {
  Program program = smallest();
  add_wait(program, 0, 1);
  const CheckReport report = check(program);
  REQUIRE(rules(report) == std::vector<std::string>{"deadlock"});
  CHECK(report.findings[0].cycle ==
        std::vector<std::string>{"device 0 waits at F0.0 for B0.0 to end, which comes after F0.0"});
}

TEST_CASE("check: compute in a circle is told apart from communication") {
  const Schedule schedule = circular_schedule();
  const CheckReport report = check(lower(schedule, {}));
  INFO(all_messages(report));
  REQUIRE(rules(report) == std::vector<std::string>{"deadlock"});
  CHECK(report.findings[0].cycle.size() >= 2);
}
