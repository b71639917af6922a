// The compiled program against the clock: equal to the nanosecond on whatever can be lowered.

#include "simulator/engines/compiled.hpp"

#include <map>

#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/mutations.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// What identifies a span in a timeline.
using Key = std::tuple<int, Lane, Instruction>;
using Intervals = std::multimap<Key, std::pair<Duration, Duration>>;

Intervals intervals(const Program& program, const WorkTimes& times) {
  Intervals result;
  for (int i = 0; i < static_cast<int>(program.work.size()); ++i) {
    const Work& work = program.work[index(i)];
    result.emplace(Key{device_of(program, i), work.lane, work.instruction},
                   std::pair{times.start[index(i)], times.end[index(i)]});
  }
  return result;
}

std::vector<std::pair<Key, std::pair<Duration, Duration>>> sorted(const Intervals& intervals) {
  std::vector<std::pair<Key, std::pair<Duration, Duration>>> list(intervals.begin(),
                                                                  intervals.end());
  std::sort(list.begin(), list.end());
  return list;
}

Intervals intervals(const Timeline& timeline) {
  Intervals result;
  for (const Span& span : timeline.spans) {
    result.emplace(Key{span.device, span.lane, span.instruction}, std::pair{span.start, span.end});
  }
  return result;
}

/// With random schedules and options, each with some tables of random costs.
void compare_with_simulate(int schedules, int most_tables) {
  Random random(11);
  for (int round = 0; round < schedules; ++round) {
    const Schedule schedule = random_schedule(random, round % 3 == 0 ? RandomKinds{} : all_kinds);
    const Program program =
        round % 2 == 0 ? lower(schedule) : lower(schedule, random_options(random, schedule));
    const CompiledProgram compiled(program);
    std::vector<Costs> tables;
    std::vector<Duration> wanted;
    for (int i = random.between(1, most_tables); i > 0; --i) {
      tables.push_back(random_costs(random, program));
      wanted.push_back(step_time(simulate(program, tables.back())));
    }
    if (compiled.steps(tables) == wanted && compiled.step(tables.front()) == wanted.front()) {
      continue;
    }
    CAPTURE(round);
    REQUIRE(compiled.steps(tables) == wanted);
    REQUIRE(compiled.step(tables.front()) == wanted.front());
  }
}

}  // namespace

TEST_CASE("a compiled program takes as long as the simulated one", "[seconds]") {
  compare_with_simulate(400, 20);
}

TEST_CASE("a compiled program knows when each work starts and ends", "[seconds]") {
  Random random(12);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const auto [program, costs] = random_case(random, round % 2 == 0 ? RandomKinds{} : all_kinds);
    REQUIRE(sorted(intervals(program, CompiledProgram(program).times(costs))) ==
            sorted(intervals(simulate(program, costs))));
  }
}

TEST_CASE("every schedule of the table can be compiled", "[seconds]") {
  const ScheduleKind& kind = GENERATE(from_range(schedule_kinds));
  Random random(13);
  for (const ScheduleShape& shape : legal_shapes(kind, 4)) {
    CAPTURE(kind.name, shape.devices, shape.microbatches, shape.virtual_stages);
    const Program program = lower(kind.generate(shape));
    const Costs costs = random_costs(random, program);
    CHECK(CompiledProgram(program).step(costs) == step_time(simulate(program, costs)));
  }
}

TEST_CASE("what cannot proceed cannot be compiled") {
  const Schedule schedule = circular_schedule();
  const Program program = lower(schedule);
  std::string reason;
  try {
    simulate(program, uniform(program, {}));
  } catch (const Error& error) {
    reason = error.message();
  }
  CHECK_THAT(reason, ContainsSubstring("devices wait for each other"));
  CHECK_THROWS_WITH(CompiledProgram(program), ContainsSubstring(reason));
}

TEST_CASE("a compiled program refuses costs as simulate does") {
  const Program program = lower(gpipe({.devices = 2, .microbatches = 4}));
  const CompiledProgram compiled(program);
  Costs costs = uniform(program, chunk_costs(1ms, 2ms));
  costs.channels.clear();
  CHECK_THROWS_WITH(compiled.step(costs), ContainsSubstring("list 0 channels"));
  CHECK_THROWS_WITH(compiled.step(uniform(program, chunk_costs(-1ns, 2ms))),
                    ContainsSubstring("expected 0 or more"));
  CHECK_THROWS_WITH(compiled.step(uniform(program, chunk_costs(Duration::max() / 4, 0ms))),
                    ContainsSubstring("exceed 292 years"));
}
