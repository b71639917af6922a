// A hundred thousand small programs, no two of them alike: what must hold for each, does. They are
// the smallest in which devices can wait for each other in every way, so that many fit into a test.
// Where the compiler does not optimize or a sanitizer watches, it is every fifth of them.

#include <unordered_set>

#include "simulator/checks/check.hpp"
#include "simulator/engines/clock.hpp"
#include "simulator/engines/compiled.hpp"
#include "simulator/engines/events/engine.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

constexpr int programs_per_percent = is_watched ? 200 : 1'000;

/// What one test makes its programs of. Tests of different kinds have different programs.
struct Kind {
  int devices = 2;
  int chunks = 1;         ///< per device
  bool halves = false;    ///< backwards in two
  bool equipped = false;  ///< replicas, memory, recomputation, ties
};

/// Any order that can be carried out. Each microbatch goes down its chain of stages and comes back;
/// of all that could be next, one is. Weight gradients come some time after their input gradients.
Schedule small_schedule(Random& random, const Kind& kind) {
  Schedule schedule{.name = "random"};
  const int devices = kind.devices;
  schedule.stages = devices * kind.chunks;
  schedule.microbatches = random.between(2, std::clamp(12 / schedule.stages, 2, 6));
  const bool returns = random.below(2) == 1;  // every second chunk the other way round: a V
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const int lap = stage / devices, place = stage % devices;
    schedule.device_of_stage.push_back(returns && lap % 2 == 1 ? devices - 1 - place : place);
  }
  schedule.devices.resize(index(devices));
  const auto issue = [&](Op op, int stage, int microbatch) {
    schedule.devices[index(schedule.device_of_stage[index(stage)])].push_back(
        {op, stage, microbatch});
  };
  std::vector<int> passed(index(schedule.microbatches), 0);
  std::vector<std::pair<int, int>> weights;  // stage, microbatch: I is done, W is not
  std::vector<int> open(index(schedule.microbatches));
  for (int m = 0; m < schedule.microbatches; ++m) open[index(m)] = m;
  while (!open.empty() || !weights.empty()) {
    const int choice = random.below(static_cast<int>(open.size() + weights.size()));
    const auto ends = [](auto& list, int i) {
      list[index(i)] = list.back();
      list.pop_back();
    };
    if (choice >= static_cast<int>(open.size())) {
      const int i = choice - static_cast<int>(open.size());
      issue(Op::backward_weight, weights[index(i)].first, weights[index(i)].second);
      ends(weights, i);
      continue;
    }
    const int microbatch = open[index(choice)];
    const int step = passed[index(microbatch)]++;
    if (step < schedule.stages) {
      issue(Op::forward, step, microbatch);
      continue;
    }
    const int stage = 2 * schedule.stages - 1 - step;
    issue(kind.halves ? Op::backward_input : Op::backward, stage, microbatch);
    if (kind.halves) weights.emplace_back(stage, microbatch);
    if (stage == 0) ends(open, choice);
  }
  return schedule;
}

/// Different schedules have (almost certainly) different ones.
std::uint64_t fingerprint(const Schedule& schedule) {
  std::uint64_t hash = 14'695'981'039'346'656'037ULL;
  const auto mix = [&](int value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 1'099'511'628'211ULL;
  };
  for (const auto& device : schedule.devices) {
    mix(-1);
    for (const auto& [op, stage, microbatch] : device) {
      mix(static_cast<int>(op) + 32 * (stage + 32 * microbatch));
    }
  }
  return hash;
}

/// All that a program costs.
std::vector<Duration*> entries_of(Costs& costs) {
  std::vector<Duration*> entries;
  for (ChunkCosts& chunk : costs.chunks) {
    for (Duration* cost : {&chunk.forward, &chunk.backward, &chunk.backward_input,
                           &chunk.backward_weight, &chunk.recompute, &chunk.update}) {
      entries.push_back(cost);
    }
  }
  for (ChannelCosts& channel : costs.channels) {
    entries.push_back(&channel.latency);
    entries.push_back(&channel.occupancy);
  }
  for (Duration& group : costs.groups) entries.push_back(&group);
  return entries;
}

/// The clock, the compiled program and the event engine say the same of every work.
bool engines_agree(const Program& program, const CompiledProgram& compiled, const Costs& costs) {
  Clock clock(program, costs);
  clock.run();
  const WorkTimes times = compiled.times(costs);
  const Environment undisturbed;
  const events::Precedence precedence(program, undisturbed);
  events::Engine engine(precedence, costs, undisturbed, 1);
  engine.run(0);
  for (int i = 0; i < static_cast<int>(program.work.size()); ++i) {
    const Duration start = clock.start(i), end = clock.end(i);
    if (times.start[index(i)] != start || times.end[index(i)] != end) return false;
    if (engine.start(i, 0) != start.count() || engine.end(i, 0) != end.count()) return false;
  }
  return true;
}

/// Counts what holds, so that nothing is reported a hundred thousand times.
struct Tally {
  int programs = 0;
  int agree = 0;     ///< all engines, work by work
  int batched = 0;   ///< and many tables at once
  int safe = 0;      ///< by `check`
  int monotone = 0;  ///< no cost, raised alone, shortens the step
  int scaled = 0;    ///< all costs times three: so is the step
  int tables = 0;    ///< of costs, in all
};

void examine(const Program& program, Random& random, Tally& tally) {
  const CompiledProgram compiled(program);
  // The first times three; then each has one cost higher than the one before.
  std::vector<Costs> tables(10, random_costs(random, program));
  for (Duration* cost : entries_of(tables[1])) *cost *= 3;
  for (std::size_t i = 2; i < tables.size(); ++i) {
    if (i > 2) tables[i] = tables[i - 1];
    const std::vector<Duration*> entries = entries_of(tables[i]);
    *entries[index(random.below(static_cast<int>(entries.size())))] +=
        Duration{random.between(1, 30)};
  }
  const std::vector<Duration> steps = compiled.steps(tables);
  ++tally.programs;
  tally.tables += static_cast<int>(tables.size());
  tally.agree += engines_agree(program, compiled, tables.front()) ? 1 : 0;
  tally.batched += compiled.step(tables.front()) == steps.front() ? 1 : 0;
  tally.safe += check(program).safe() ? 1 : 0;
  tally.scaled += steps[1] == 3 * steps[0] ? 1 : 0;
  const bool monotone = std::is_sorted(steps.begin() + 2, steps.end()) && steps[0] <= steps[2];
  tally.monotone += monotone ? 1 : 0;
}

/// This many of a hundred parts of all programs.
void hold_for(int percent, const Kind& kind) {
  const int programs = percent * programs_per_percent;
  Random random(static_cast<unsigned>(100 + kind.devices));
  std::unordered_set<std::uint64_t> seen;
  Tally tally;
  while (static_cast<int>(seen.size()) < programs) {
    const Schedule schedule = small_schedule(random, kind);
    if (!seen.insert(fingerprint(schedule)).second) continue;
    examine(kind.equipped ? lower(schedule, random_options(random, schedule)) : lower(schedule),
            random, tally);
  }
  REQUIRE(tally.programs == programs);
  CHECK(tally.tables == 10 * programs);
  CHECK(tally.agree == programs);
  CHECK(tally.batched == programs);
  CHECK(tally.safe == programs);
  CHECK(tally.monotone == programs);
  CHECK(tally.scaled == programs);
}

}  // namespace

// These percents add up to 100; the tests can run at the same time.

TEST_CASE("random programs: on two devices", "[seconds]") {
  hold_for(12, {.devices = 2});
}
TEST_CASE("random programs: on three devices", "[seconds]") {
  hold_for(12, {.devices = 3});
}
TEST_CASE("random programs: on four devices", "[seconds]") {
  hold_for(12, {.devices = 4});
}
TEST_CASE("random programs: on two devices, backwards in halves", "[seconds]") {
  hold_for(12, {.devices = 2, .halves = true});
}
TEST_CASE("random programs: on three devices, backwards in halves", "[seconds]") {
  hold_for(12, {.devices = 3, .halves = true});
}
TEST_CASE("random programs: on four devices, backwards in halves", "[seconds]") {
  hold_for(12, {.devices = 4, .halves = true});
}
TEST_CASE("random programs: on two devices with two stages each", "[seconds]") {
  hold_for(14, {.devices = 2, .chunks = 2});
}
TEST_CASE("random programs: on three devices with two stages each", "[seconds]") {
  hold_for(13, {.devices = 3, .chunks = 2});
}
TEST_CASE("random programs: with replicas, memory, recomputation and ties") {
  hold_for(1, {.devices = 2, .chunks = 2, .halves = true, .equipped = true});
}
