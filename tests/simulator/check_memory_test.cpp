// Limits that are exceeded, and buffers that are in use twice.

#include "profiles/error.hpp"
#include "simulator/checks/check.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/check_reports.hpp"
#include "tests/simulator/check_settings.hpp"
#include "tests/simulator/hand_made.hpp"
#include "tests/simulator/mutations.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("check: a limit below the peak is short by exactly the difference") {
  // One stage: parameters 8, gradients 8, optimizer 16 KiB; the rest is alive during a backward.
  const Program program = lowered({.schedule = "1f1b", .devices = 1, .microbatches = 1});
  const CheckReport enough = check(program, {.memory_limits = {1 << 20}});
  REQUIRE(enough.safe());
  Bytes peak = 1 << 20;  // the least limit that is safe
  for (Bytes step = peak / 2; step > 0; step /= 2) {
    if (check(program, {.memory_limits = {peak - step}}).safe()) peak -= step;
  }
  CHECK(peak >= 32 * kibi + 4 * kibi);
  const CheckReport report = check(program, {.memory_limits = {peak - 100}});
  REQUIRE(rules(report) == std::vector<std::string>{"memory"});
  CHECK_THAT(report.findings[0].message, ContainsSubstring("short by 100B"));
  CHECK_THAT(report.findings[0].message,
             ContainsSubstring("16KiB of optimizer, 8KiB of parameters"));
  CHECK(report.findings[0].device == 0);
  CHECK_THROWS_AS(check(program, {.memory_limits = {1, 2}}), Error);
  // What is unlimited is not shown as a number.
  CHECK_THAT(enough.proved.back(), ContainsSubstring(" of 1MiB on device 0"));
  const CheckReport free = check(program, {.memory_limits = {std::numeric_limits<Bytes>::max()}});
  CHECK_THAT(free.proved.back(), !ContainsSubstring(" of "));
}

TEST_CASE("check: a buffer shifted onto another is a race") {
  const Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 4});
  std::vector<int> forwards;  // buffers that live from a forward on device 0, at the same time
  for (const std::string name : {"F0.0", "F0.1"}) {
    const IndexRange range = program.work[index(find_work(program, name, 0))].allocates;
    for (int i = range.first; i < range.end; ++i) {
      const Buffer& buffer = program.buffers[index(program.allocations[index(i)])];
      if (buffer.role == BufferRole::saved) forwards.push_back(program.allocations[index(i)]);
    }
  }
  REQUIRE(forwards.size() == 2);
  Program mutant = program;
  mutant.buffers[index(forwards[1])].offset = program.buffers[index(forwards[0])].offset + 1;
  CHECK(found(check(mutant), "race"));
}

TEST_CASE("check: what later pieces of a sequence look at must not be freed before them") {
  Builder builder(1, 2);
  const int f0 = builder.add(Op::forward, 0, 0);
  const int f1 = builder.add(Op::forward, 0, 1);
  const int b1 = builder.add(Op::backward, 0, 1);
  const int b0 = builder.add(Op::backward, 0, 0);
  builder.add(Op::update, 0, 1);
  Program program = builder.program;
  program.sequence_chunks = 2;
  program.arena = {8};
  struct Life {
    BufferRole role;
    int from, until, too_early, user;
  };
  const Life life = GENERATE_COPY(Life{BufferRole::past, f0, b1, f0, f1},
                                  Life{BufferRole::past_gradients, b1, b0, b1, b0});
  INFO(to_string(life.role));
  program.buffers = {{.device = 0, .bytes = 8, .role = life.role, .chunk = 0, .microbatch = 0}};
  allocate(program, life.from, {0});
  Program early = program;
  release(program, life.until, {0});
  CHECK(check(program).safe());
  release(early, life.too_early, {0});
  const CheckReport report = check(early);
  REQUIRE(found(report, "race"));
  CHECK_THAT(report.findings[0].message,
             ContainsSubstring(concat(describe(program, life.user), " may use buffer 0")));
}

TEST_CASE("check: lives on two lanes that nothing orders are a race, though no clock may show it") {
  // F0.1 allocates where SF0.0's buffer was. Only a wait of F0.1 on SF0.0 makes this safe.
  Builder builder(2, 2);
  const int f00 = builder.add(Op::forward, 0, 0);
  const int s00 = builder.add(Op::send_activation, 0, 0, {f00});
  const int f01 = builder.add(Op::forward, 0, 1);
  const int s01 = builder.add(Op::send_activation, 0, 1, {f01});
  const int r00 = builder.add(Op::receive_activation, 1, 0, {s00});
  const int f10 = builder.add(Op::forward, 1, 0, {r00});
  const int r01 = builder.add(Op::receive_activation, 1, 1, {s01});
  const int f11 = builder.add(Op::forward, 1, 1, {r01});
  const int b10 = builder.add(Op::backward, 1, 0, {f10});
  const int sb0 = builder.add(Op::send_gradient, 1, 0, {b10});
  const int b11 = builder.add(Op::backward, 1, 1, {f11});
  const int sb1 = builder.add(Op::send_gradient, 1, 1, {b11});
  const int rb0 = builder.add(Op::receive_gradient, 0, 0, {sb0});
  builder.add(Op::backward, 0, 0, {rb0});
  const int rb1 = builder.add(Op::receive_gradient, 0, 1, {sb1});
  builder.add(Op::backward, 0, 1, {rb1});
  builder.add(Op::update, 0, 1);
  builder.add(Op::update, 1, 1);
  Program program = builder.program;
  program.arena = {16, 16};
  for (const int microbatch : {0, 1}) {
    program.buffers.push_back({.device = 0,
                               .bytes = 8,
                               .role = BufferRole::output,
                               .chunk = 0,
                               .microbatch = microbatch});
  }
  allocate(program, f00, {0});
  release(program, s00, {0});
  allocate(program, f01, {1});
  release(program, s01, {1});
  const CheckReport racing = check(program);
  REQUIRE(rules(racing) == std::vector<std::string>{"race"});
  CHECK(racing.findings[0].message ==
        "buffer 0 (output, 8B) and buffer 1 (output, 8B) share addresses of device 0: F0.1 on "
        "device 0 (stage 0) "
        "allocates the second, but nothing makes it wait for SF0.0 on device 0 (stage 0), which "
        "frees the first");

  SECTION("a wait orders them") {
    add_wait(program, f01, s00);
    CHECK(check(program).safe());
  }
  SECTION("another address separates them") {
    program.buffers[1].offset = 8;
    CHECK(check(program).safe());
  }
  SECTION("half an overlap is an overlap") {
    program.buffers[1].offset = 4;
    CHECK(found(check(program), "race"));
  }
  SECTION("a round trip over the other device orders them too") {
    // F0.1 now comes after B0.0, which waits for the gradient of what SF0.0 sent.
    auto& order = program.order[0];
    order = {f00, s00, rb0, 13, f01, s01, rb1, 15, 16};
    auto& other = program.order[1];
    other = {r00, f10, b10, sb0, r01, f11, b11, sb1, 17};
    const CheckReport report = check(program);
    INFO(all_messages(report));
    CHECK(report.safe());
  }
  SECTION("freed too early") {
    release(program, s00, {});
    release(program, f00, {0});
    CHECK_THAT(first_message(check(program), "race"),
               ContainsSubstring("SF0.0 on device 0 (stage 0) may use buffer 0"));
  }
  SECTION("freed twice") {
    release(program, f01, {0});
    CHECK_THAT(first_message(check(program), "race"), ContainsSubstring("a second time"));
  }
  SECTION("never allocated") {
    allocate(program, f00, {});
    CHECK_THAT(first_message(check(program), "race"), ContainsSubstring("which nothing allocates"));
  }
  SECTION("resident under another one") {
    program.buffers.push_back(
        {.device = 0, .bytes = 4, .offset = 2, .role = BufferRole::parameters});
    program.resident = {2};
    CHECK(found(check(program), "race"));
  }
  SECTION("beyond the arena") {
    program.buffers[1].offset = 9;
    CHECK_THAT(first_message(check(program), "memory"),
               ContainsSubstring("reaches beyond the arena of device 0"));
  }
}
