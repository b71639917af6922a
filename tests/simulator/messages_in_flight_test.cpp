// Deadlock with channels that buffer messages, and the changes that cure one.

#include "simulator/checks/check.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/check_reports.hpp"
#include "tests/simulator/mutations.hpp"
#include "tests/simulator/support.hpp"

namespace stagecraft {
namespace {

using namespace tests;

const Finding& deadlock_of(const CheckReport& report) {
  REQUIRE(!report.findings.empty());
  REQUIRE(report.findings[0].rule == "deadlock");
  return report.findings[0];
}

/// Moves a work right behind another one of its device.
void move_behind(Program& program, const std::string& moved, const std::string& place) {
  const int work = find_work(program, moved);
  std::vector<int>& order = program.order[index(device_of(program, work))];
  order.erase(std::find(order.begin(), order.end(), work));
  order.insert(std::find(order.begin(), order.end(), find_work(program, place)) + 1, work);
}

TEST_CASE("check: what needs k messages in flight is safe with k and no fewer") {
  // Device 0 sends F0.4 to F0.7 before it takes a gradient; device 1 sends four gradients before it
  // receives F1.4. Four messages pile up in each direction.
  Schedule schedule = gpipe({.devices = 2, .microbatches = 8});
  std::vector<Instruction>& order = schedule.devices[1];
  std::rotate(order.begin() + 4, order.begin() + 8, order.begin() + 12);
  Program program = lower(schedule);
  for (int m = 7; m >= 0; --m) move_behind(program, concat("RB0.", m), "SF0.7");
  for (int m = 7; m >= 4; --m) move_behind(program, concat("RF1.", m), "SB1.3");
  for (const int k : {0, 1, 3}) {
    const CheckReport report = check(program, {.memory_limits = {}, .messages_in_flight = k});
    const Finding finding = deadlock_of(report);
    CHECK(finding.cycle.size() == 2);
    CHECK_THAT(finding.fix, ContainsSubstring("safe with 4 messages in flight per channel"));
  }
  const CheckReport report = check(program, {.memory_limits = {}, .messages_in_flight = 4});
  CHECK(report.safe());
  CHECK(proves(report, "no deadlock with 4 messages in flight per channel"));
}

TEST_CASE("check: channels are first in, first out, so swapped messages deadlock with any buffer") {
  Program program = lower(gpipe({.devices = 2, .microbatches = 4}));
  swap_in_order(program, find_work(program, "SF0.1"), find_work(program, "SF0.2"));
  for (const int k : {0, 1, 2, 100}) {
    INFO(k << " messages in flight");
    CHECK(deadlock_of(check(program, {.memory_limits = {}, .messages_in_flight = k})).fix ==
          "swapping RF1.1 and RF1.2 on device 1 cures it");
  }
  CHECK(deadlock_of(check(program, {.memory_limits = {}, .messages_in_flight = 2})).cycle ==
        std::vector<std::string>{
            "device 1 waits at RF1.1, but the next message in its channel is for RF1.2"});
}

TEST_CASE("check: every generated schedule is safe with any number of messages in flight",
          "[seconds]") {
  const ScheduleKind& kind = GENERATE(from_range(schedule_kinds));
  for (const ScheduleShape& shape : legal_shapes(kind, 4)) {
    if (shape.microbatches > 8) continue;
    const Program program = lower(kind.generate(shape));
    for (const int k : {1, 2})
      REQUIRE(check(program, {.memory_limits = {}, .messages_in_flight = k}).safe());
  }
}

TEST_CASE("check: more messages in flight never make a safe program unsafe") {
  Random random(31);
  int unsafe = 0;
  for (int i = 0; i < 150; ++i) {
    const Schedule schedule = random_schedule(random);
    Program program = lower(schedule);
    std::vector<int>& order = program.order[index(random.below(program.devices))];
    const auto moved = order.begin() + random.below(static_cast<int>(order.size()));
    std::rotate(moved, moved + 1, std::min(moved + 4, order.end()));
    bool was_safe = false;
    for (const int k : {0, 1, 2, 5}) {
      const bool safe =
          !found(check(program, {.memory_limits = {}, .messages_in_flight = k}), "deadlock");
      REQUIRE((safe || !was_safe));
      was_safe = safe;
      unsafe += safe ? 0 : 1;
    }
  }
  CHECK(unsafe > 20);
}

TEST_CASE("check: two communications that change places are caught with any buffer", "[seconds]") {
  Random random(32);
  int swaps = 0;
  for (int i = 0; i < 12; ++i) {
    const Schedule schedule = random_schedule(random);
    const Program program = lower(schedule, random_options(random, schedule));
    // Neighbours of one channel, on the sending side.
    std::vector<int> last(program.channels.size(), -1);
    for (int work = 0; work < static_cast<int>(program.work.size()); ++work) {
      if (program.work[index(work)].lane != Lane::send) continue;
      int& before = last[index(*program.work[index(work)].channel)];
      const int other = std::exchange(before, work);
      if (other < 0) continue;
      Program mutant = program;
      swap_in_order(mutant, other, work);
      for (const int k : {0, 1, 3}) {
        REQUIRE(found(check(mutant, {.memory_limits = {}, .messages_in_flight = k}), "deadlock"));
      }
      ++swaps;
    }
  }
  CHECK(swaps > 20);
}

TEST_CASE("check: a dropped wait and a shifted buffer are caught with messages in flight") {
  Random random(33);
  int dropped = 0;
  int shifted = 0;
  for (int i = 0; i < 40; ++i) {
    const Schedule schedule = random_schedule(random);
    const Program program = lower(schedule, random_options(random, schedule));
    const CheckOptions options{.memory_limits = {}, .messages_in_flight = 2};
    REQUIRE(check(program, options).safe());
    // A computation that no longer waits for its arrival.
    for (int work = 0; work < static_cast<int>(program.work.size()); ++work) {
      Program mutant = program;
      Work& item = mutant.work[index(work)];
      const bool awaits_receive =
          item.lane == Lane::compute && item.waits.size() > 0 &&
          program.work[index(program.waits[index(item.waits.end - 1)])].lane == Lane::receive;
      if (!awaits_receive) continue;
      --item.waits.end;
      REQUIRE(!check(mutant, options).safe());
      ++dropped;
      break;
    }
    // A buffer put onto one that lives as long as the program.
    for (std::size_t b = 0; b < program.buffers.size(); ++b) {
      const int other = program.resident.empty() ? -1 : program.resident.front();
      if (other < 0 || static_cast<int>(b) == other) continue;
      const Buffer& fixed = program.buffers[index(other)];
      if (fixed.bytes == 0 || program.buffers[b].bytes == 0) continue;
      if (fixed.device != program.buffers[b].device) continue;
      Program mutant = program;
      mutant.buffers[b].offset = fixed.offset;
      REQUIRE(found(check(mutant, options), "race"));
      ++shifted;
      break;
    }
  }
  CHECK(dropped > 10);
  CHECK(shifted > 10);
}

TEST_CASE("check: compute in a circle is cured by swapping two computations") {
  const Schedule schedule = circular_schedule();
  const Finding finding =
      deadlock_of(check(lower(schedule), {.memory_limits = {}, .messages_in_flight = 8}));
  CHECK_THAT(finding.fix, ContainsSubstring("swapping"));
  Schedule cured = schedule;
  std::swap(cured.devices[1][1], cured.devices[1][2]);
  CHECK(check(lower(cured)).safe());
}

TEST_CASE("check: a negative number of messages in flight is refused") {
  CHECK_THROWS_AS(check(lower(gpipe({.devices = 2, .microbatches = 2})),
                        {.memory_limits = {}, .messages_in_flight = -1}),
                  Error);
}

}  // namespace
}  // namespace stagecraft
