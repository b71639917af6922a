// Work, messages and waits that are missing, repeated or changed: each mistake is caught by its
// rule.

#include "simulator/checks/check.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/check_reports.hpp"
#include "tests/simulator/check_settings.hpp"
#include "tests/simulator/mutations.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("check: a dropped wait lets work start too early") {
  Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 4});
  const auto message_after_drop = [&](int device, const std::string& work, const std::string& on) {
    Program mutant = program;
    drop_wait(mutant, find_work(mutant, work, device), find_work(mutant, on, device));
    const CheckReport report = check(mutant);
    INFO(all_messages(report));
    CHECK(found(report, "order"));
    return first_message(report, "order");
  };
  CHECK(message_after_drop(1, "F1.2", "RF1.2") ==
        "F1.2 on device 1 (stage 1) may start before its input has arrived: nothing makes it wait "
        "for RF1.2 on "
        "device 1 (stage 1)");
  CHECK(message_after_drop(0, "B0.2", "RB0.2") ==
        "B0.2 on device 0 (stage 0) may start before the gradient of its output has arrived: "
        "nothing makes it wait "
        "for RB0.2 on device 0 (stage 0)");
  CHECK_THAT(message_after_drop(0, "SF0.1", "F0.1"), ContainsSubstring("SF0.1 on device 0"));
  CHECK_THAT(message_after_drop(1, "SB1.3", "B1.3"),
             ContainsSubstring("before its gradient is computed"));
}

TEST_CASE("check: a receive must name its send") {
  Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 2});
  drop_wait(program, find_work(program, "RF1.0", 1), find_work(program, "SF0.0", 0));
  CHECK(first_message(check(program), "order") ==
        "RF1.0 on device 1 (stage 1) does not wait for its send to start");
}

TEST_CASE("check: a device cannot wait for what happens on another one") {
  Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 2});
  add_wait(program, find_work(program, "F1.1", 1), find_work(program, "F0.1", 0));
  CHECK_THAT(first_message(check(program), "order"),
             ContainsSubstring("which its device cannot see"));
}

TEST_CASE("check: a missing, halved or repeated passage breaks conservation") {
  const Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 4});
  const CheckReport no_backward = check(without(program, find_work(program, "B0.2", 0)));
  CHECK(first_message(no_backward, "conservation") ==
        "microbatch 2 passes forward through stage 0 (replica 0 on device 0) but never backward");
  const CheckReport no_forward = check(without(program, find_work(program, "F1.3", 1)));
  CHECK(found(no_forward, "conservation"));
  CHECK_THAT(all_messages(no_forward),
             ContainsSubstring("microbatch 3 never passes forward through stage 1"));

  Program twice = program;
  repeat(twice, find_work(program, "F1.1", 1));
  CHECK(first_message(check(twice), "conservation") == "F1.1 on device 1 (stage 1) is done twice");

  Program halved = program;
  halved.work[index(find_work(program, "B0.1", 0))].instruction.op = Op::backward_input;
  CHECK_THAT(first_message(check(halved), "conservation"),
             ContainsSubstring("its weight gradient (W) is never computed"));

  const CheckReport no_update = check(without(program, find_work(program, "U1.3", 1)));
  CHECK(first_message(no_update, "conservation") ==
        "the weights of stage 1 (replica 0 on device 1) are never updated");
}

TEST_CASE("check: replicas that leave out or share rows break conservation") {
  const Program program = lowered(
      {.schedule = "gpipe", .devices = 2, .microbatches = 2, .replicas = {2, 1}, .rows = 4});
  Program mutant = program;
  mutant.chunks[1].rows = {1, 4};
  CHECK_THAT(first_message(check(mutant), "conservation"),
             ContainsSubstring("rows [1, 2) of microbatch 0 pass stage 0 twice"));
  mutant.chunks[1].rows = {3, 4};
  CHECK_THAT(first_message(check(mutant), "conservation"),
             ContainsSubstring("rows [2, 3) of microbatch 0 never pass forward through stage 0"));
}

TEST_CASE("check: a message needs both of its ends, once") {
  const Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 4});
  const CheckReport unheard = check(without(program, find_work(program, "RF1.2", 1)));
  CHECK(first_message(unheard, "matching") ==
        "SF0.2 on device 0 (stage 0) is never received by device 1");
  const CheckReport unsent = check(without(program, find_work(program, "SB1.2", 1)));
  CHECK(first_message(unsent, "matching") ==
        "RB0.2 on device 0 (stage 0) waits for a message that device 1 never sends");
  Program twice = program;
  repeat(twice, find_work(program, "SF0.0", 0));
  CHECK_THAT(first_message(check(twice), "matching"),
             ContainsSubstring("sends the same message a second time"));
}

TEST_CASE("check: a channel whose two directions differ in size is a mismatch") {
  Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 2});
  program.channels[0].bytes += 1;
  CHECK(rules(check(program)) == std::vector<std::string>{"matching"});
}

TEST_CASE("check: a channel must lead to the neighbour, on another device") {
  Program program = lowered({.schedule = "1f1b", .devices = 3, .microbatches = 2});
  program.channels[0].to = 2;
  CHECK(found(check(program), "matching"));
}

TEST_CASE("check: a reduction sums exactly the replicas of its stage") {
  const Program program = lowered(
      {.schedule = "gpipe", .devices = 2, .microbatches = 4, .replicas = {2, 2}, .rows = 2});
  REQUIRE(program.groups.size() == 2);
  Program stranger = program;
  stranger.groups[0].chunks = {0, 2};
  const CheckReport report = check(stranger);
  CHECK(found(report, "matching"));
  CHECK_THAT(all_messages(report), ContainsSubstring("takes part in a group it is no member of"));

  Program absent = without(program, find_work(program, "G0.3", 1));
  CHECK_THAT(first_message(check(absent), "matching"),
             ContainsSubstring("waits for members that never come: stage 0 on device 1"));

  Program early = program;
  drop_wait(early, find_work(program, "U0.3", 0), find_work(program, "G0.3", 0));
  CHECK_THAT(first_message(check(early), "order"),
             ContainsSubstring("gradients of the 2 replicas of stage 0 are summed"));

  Program premature = program;
  drop_wait(premature, find_work(program, "G0.3", 0), find_work(program, "B0.3", 0));
  CHECK_THAT(first_message(check(premature), "order"),
             ContainsSubstring("before a gradient it sums is computed"));
}

TEST_CASE("check: tied weights are updated after their gradients are summed") {
  Program program = lowered({.schedule = "1f1b",
                             .devices = 2,
                             .microbatches = 2,
                             .ties = {{.owner = 0, .user = 1, .bytes = 8}}});
  CHECK(check(program).safe());
  drop_wait(program, find_work(program, "U1.1", 1), find_work(program, "T1.1", 1));
  CHECK_THAT(first_message(check(program), "order"),
             ContainsSubstring("gradients of the tied weights are summed"));
}

TEST_CASE("check: the flush policy reads version 0 and makes version 1") {
  Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 4});
  program.work[index(find_work(program, "B1.2", 1))].weight_version = 1;
  const CheckReport report = check(program);
  CHECK(rules(report) == std::vector<std::string>{"version"});
  CHECK(report.findings[0].message ==
        "B1.2 on device 1 (stage 1) reads weight version 1; the flush policy promises version 0");
}
