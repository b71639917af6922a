// Replicas that take turns while weights are updated on the way: orders and versions, windows,
// time.

#include "simulator/values/turns.hpp"

#include <map>
#include <numeric>
#include <set>

#include "profiles/error.hpp"
#include "simulator/checks/check.hpp"
#include "simulator/engines/events.hpp"
#include "simulator/engines/fold.hpp"
#include "simulator/engines/steady.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/check_reports.hpp"
#include "tests/simulator/mutations.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

using Replicas = std::vector<int>;

/// Parameters of one byte, so that bytes count versions; what a forward saves of 100, so that they
/// count microbatches in flight.
LowerOptions in_turn(const Replicas& replicas) {
  LowerOptions options;
  options.replica_policy = ReplicaPolicy::round_robin;
  int device = 0;
  for (const int count : replicas) {
    auto& list = options.replicas.emplace_back(index(count));
    std::iota(list.begin(), list.end(), device);
    device += count;
    options.memory.emplace_back(index(count),
                                ChunkMemory{.parameters = 1, .gradients = 1, .saved = 100});
  }
  return options;
}

ScheduleShape shape_of(const Replicas& replicas, int microbatches) {
  return {.devices = static_cast<int>(replicas.size()),
          .microbatches = microbatches,
          .warm_up = round_robin_warm_up(replicas, microbatches)};
}

Program lowered(const Replicas& replicas, int microbatches) {
  return lower(pipedream(shape_of(replicas, microbatches)), in_turn(replicas));
}

/// "F0@0 …": compute of one device, each with the version it reads, or makes.
std::string compute(const Program& program, int device) {
  std::string text;
  for (const int item : program.order[index(device)]) {
    const Work& work = program.work[index(item)];
    if (work.lane != Lane::compute) continue;
    text += concat(text.empty() ? "" : " ", letter(work.instruction.op),
                   work.instruction.microbatch, "@", work.weight_version);
  }
  return text;
}

Bytes older_versions(const Program& program, int chunk) {
  Bytes bytes = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.category == MemoryCategory::weight_versions && buffer.chunk == chunk)
      bytes += buffer.bytes;
  }
  return bytes;
}

Replicas random_replicas(Random& random, int most_stages, int most_replicas) {
  Replicas replicas(index(random.between(1, most_stages)));
  for (int& count : replicas) count = random.between(1, most_replicas);
  return replicas;
}

int devices_from(const Replicas& replicas, std::size_t stage) {
  return std::accumulate(replicas.begin() + static_cast<std::ptrdiff_t>(stage), replicas.end(), 0);
}

int rounded_up(int a, int b) {
  return (a + b - 1) / b;
}

std::string refusal(const Schedule& schedule, const LowerOptions& options) {
  try {
    lower(schedule, options);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("two replicas before one: whose turn it is, and which weights they meet", "[turns]") {
  const Program program = lowered({2, 1}, 6);
  CHECK(program.update_every == std::vector{2, 1});
  CHECK(compute(program, 0) == "F0@0 F2@0 B0@0 U1@1 F4@1 B2@0 U3@2 B4@1 U5@3");
  CHECK(compute(program, 1) == "F1@0 F3@0 B1@0 U1@1 F5@1 B3@0 U3@2 B5@1 U5@3");
  CHECK(
      compute(program, 2) ==
      "F0@0 B0@0 U0@1 F1@1 B1@1 U1@2 F2@2 B2@2 U2@3 F3@3 B3@3 U3@4 F4@4 B4@4 U4@5 F5@5 B5@5 U5@6");
  CHECK(first_finding(program) == "safe");
  // One sum for each round of the first stage, of both its replicas.
  REQUIRE(program.groups.size() == 1);
  CHECK(program.groups[0].chunks == std::vector{0, 1});
  const auto sums = std::ranges::count_if(
      program.work, [](const Work& work) { return work.instruction.op == Op::reduce_gradient; });
  CHECK(sums == 2 * 3);
}

TEST_CASE("three replicas before one, and two before two", "[turns]") {
  const Program program = lowered({3, 1}, 9);
  CHECK(compute(program, 0) == "F0@0 F3@0 B0@0 U2@1 F6@1 B3@0 U5@2 B6@1 U8@3");
  CHECK(compute(program, 1) == "F1@0 F4@0 B1@0 U2@1 F7@1 B4@0 U5@2 B7@1 U8@3");
  CHECK(compute(program, 2) == "F2@0 F5@0 B2@0 U2@1 F8@1 B5@0 U5@2 B8@1 U8@3");
  CHECK(first_finding(program) == "safe");
  const Program twice = lowered({2, 2}, 6);
  CHECK(compute(twice, 1) == "F1@0 F3@0 B1@0 U1@1 F5@1 B3@0 U3@2 B5@1 U5@3");
  CHECK(compute(twice, 3) == "F1@0 B1@0 U1@1 F3@1 B3@1 U3@2 F5@2 B5@2 U5@3");
  CHECK(first_finding(twice) == "safe");
}

TEST_CASE("a round meets the version of the closed form, and replicas keep NOAM of them",
          "[turns][seconds]") {
  Random random(5);
  for (int round = 0; round < 60; ++round) {
    const Replicas replicas = random_replicas(random, 5, 5);
    const int microbatches = 2 * common_multiple(replicas) * devices_from(replicas, 0);
    INFO(round << ": " << replicas.size() << " stages, " << microbatches << " microbatches");
    if (microbatches > 600) continue;
    const Program program = lowered(replicas, microbatches);
    CHECK(first_finding(program) == "safe");
    const auto peaks =
        memory_peaks(simulate(program, uniform(program, chunk_costs(10ms, 20ms), Duration{0})));
    for (std::size_t chunk = 0; chunk < program.chunks.size(); ++chunk) {
      const Chunk& place = program.chunks[chunk];
      const int r = place.replicas;
      const int kept = rounded_up(devices_from(replicas, index(place.stage)), r);
      CHECK(1 + older_versions(program, static_cast<int>(chunk)) == kept);
      // Never more than that in flight: 100 each, beside parameters and gradients.
      CHECK(peaks[index(place.device)].bytes <= Bytes{101} * kept + 1);
    }
    for (const Work& work : program.work) {
      if (work.lane != Lane::compute) continue;
      const int stage = work.instruction.stage, r = replicas[index(stage)];
      const int of_round = work.instruction.microbatch / r;
      const int version = of_round - rounded_up(devices_from(replicas, index(stage)), r) + 1;
      const bool update = work.instruction.op == Op::update;
      CHECK(work.weight_version == (update ? of_round + 1 : std::max(0, version)));
    }
  }
}

TEST_CASE("replicas that take turns hand on what both work on, all pieces of it", "[turns]") {
  const int pieces = GENERATE(1, 2);
  const Program program = lower(
      seq1f1b({.devices = 3, .microbatches = 25, .sequence_chunks = pieces}), in_turn({6, 4, 3}));
  using Ends = std::pair<int, int>;
  std::map<Ends, std::set<int>> sent, common;
  for (const Work& work : program.work) {
    if (work.instruction.op != Op::send_activation) continue;
    const Channel& channel = program.channels[index(*work.channel)];
    sent[{channel.from, channel.to}].insert(work.instruction.microbatch);
  }
  const int chunks = static_cast<int>(program.chunks.size());
  for (int from = 0; from < chunks; ++from) {
    for (int to = 0; to < chunks; ++to) {
      const Chunk &a = program.chunks[index(from)], &b = program.chunks[index(to)];
      if (b.stage != a.stage + 1) continue;
      for (int m = 0; m < program.microbatches; ++m) {
        const int turn = m / pieces;
        const bool both = turn % a.replicas == a.replica && turn % b.replicas == b.replica;
        if (both) common[{from, to}].insert(m);
      }
    }
  }
  CHECK(sent == common);
}

TEST_CASE("windows that the rule allows never make replicas wait in a circle", "[turns][seconds]") {
  Random random(17);
  int allowed = 0, refused = 0, stuck = 0;
  for (int round = 0; round < 400; ++round) {
    const Replicas replicas = random_replicas(random, 4, 4);
    const int microbatches = common_multiple(replicas) * random.between(1, 4);
    std::vector<int> warm_up(replicas.size());
    for (std::size_t s = warm_up.size(); s-- > 0;) {
      const int next = s + 1 < warm_up.size() ? warm_up[s + 1] : 1;
      warm_up[s] = next + random.below(5);
    }
    const Schedule schedule = pipedream({.devices = static_cast<int>(replicas.size()),
                                         .microbatches = microbatches,
                                         .warm_up = warm_up});
    const bool safe = check(lower(schedule, in_turn(replicas))).safe();
    const bool legal = !find_window_fault(schedule, replicas);
    INFO(round);
    CHECK((safe || !legal));
    allowed += legal ? 1 : 0;
    refused += legal ? 0 : 1;
    stuck += safe ? 0 : 1;
  }
  CHECK(allowed > 50);
  CHECK(refused > 50);
  CHECK(stuck > 20);
}

TEST_CASE("windows that count stages are too short for three replicas", "[turns]") {
  const Schedule schedule = pipedream({.devices = 3, .microbatches = 6});
  const auto fault = find_window_fault(schedule, {3, 1, 1});
  REQUIRE(fault);
  CHECK(fault->what ==
        "with 3 forwards before its first backward, the 3 replicas of stage 0 may wait for each "
        "other's gradients in a circle: stage 1 asks for up to 4");
  CHECK(fault->remedy ==
        "give stage 0 a warm-up of at least 4, or leave the warm-up out: it counts devices then");
  CHECK(found(check(lower(schedule, in_turn({3, 1, 1}))), "deadlock"));
}

TEST_CASE("in the steady state a stage of r replicas takes (f + b) / r", "[turns]") {
  // Where all devices are busy, those that wait for the last one of their round need a deeper
  // window than one microbatch for each device.
  struct Row {
    Replicas replicas;
    std::vector<int> units;  ///< of f + b
    int windows = 1;
  };
  const std::vector<Row> rows{{{2, 1}, {2, 1}},    {{3, 1}, {3, 1}},
                              {{3, 1}, {4, 1}},    {{2, 2}, {3, 2}},
                              {{1, 2}, {1, 2}, 2}, {{2, 1, 1}, {2, 1, 1}, 2},
                              {{1, 3}, {1, 4}, 3}, {{4, 2, 2}, {5, 3, 2}, 2}};
  for (const auto& [replicas, units, windows] : rows) {
    const Program program = lowered(replicas, 2 * common_multiple(replicas));
    Costs costs = uniform(program, chunk_costs(1ms, 2ms), Duration{0});
    Duration slowest{0};
    for (std::size_t chunk = 0; chunk < program.chunks.size(); ++chunk) {
      const Chunk& place = program.chunks[chunk];
      const int unit = units[index(place.stage)];
      costs.chunks[chunk] = chunk_costs(6ms * unit, 12ms * unit);
      slowest = std::max<Duration>(slowest, 18ms * unit / place.replicas);
    }
    CAPTURE(replicas, units);
    ScheduleShape shape = shape_of(replicas, 24);
    for (int& forwards : shape.warm_up) forwards *= windows;
    const auto steady =
        steady_microbatches(find_schedule("pipedream"), shape, costs, in_turn(replicas));
    REQUIRE(steady);
    CHECK(steady->microbatches % common_multiple(replicas) == 0);
    CHECK(steady->time == steady->microbatches * slowest);
  }
}

TEST_CASE("the steady state of turns is what long runs take, and no period beats the work",
          "[turns][seconds]") {
  Random random(29);
  int found = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const Replicas replicas = random_replicas(random, 3, 3);
    const LowerOptions options = in_turn(replicas);
    const auto program_of = [&](int microbatches) {
      return lower(pipedream(shape_of(replicas, microbatches)), options);
    };
    const int unit = common_multiple(replicas);
    const Costs costs = random_costs(random, program_of(4 * unit));
    const auto steady =
        steady_microbatches(find_schedule("pipedream"), shape_of(replicas, 100), costs, options);
    if (!steady) continue;
    ++found;
    const auto step = [&](int microbatches) {
      return step_time(simulate(program_of(microbatches), costs));
    };
    const int many = rounded_up(600, steady->microbatches) * steady->microbatches;
    CHECK(step(many + steady->microbatches) - step(many) == steady->time);
    const Program program = program_of(unit);
    for (std::size_t chunk = 0; chunk < program.chunks.size(); ++chunk) {
      const ChunkCosts& own = costs.chunks[chunk];
      const int rounds = steady->microbatches / program.chunks[chunk].replicas;
      CHECK(steady->time >= rounds * (own.forward + own.backward + own.update));
    }
    const LongStep counted =
        long_step(find_schedule("pipedream"), shape_of(replicas, 60 * unit), costs, options);
    CHECK(counted.step == step(60 * unit));
  }
  CHECK(found > 50);
}

TEST_CASE("random sizes, recomputation and shards under turns are safe", "[turns]") {
  Random random(31);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const Replicas replicas = random_replicas(random, 4, 3);
    const int microbatches = common_multiple(replicas) * random.between(1, 4);
    const Schedule schedule = pipedream(shape_of(replicas, microbatches));
    LowerOptions options = random_options(random, schedule);
    const LowerOptions turns = in_turn(replicas);
    options.replica_policy = ReplicaPolicy::round_robin;
    options.replicas = turns.replicas;
    for (std::size_t s = 0; s < replicas.size(); ++s) {
      options.memory[s].assign(index(replicas[s]), options.memory[s].front());
    }
    options.ties.clear();
    const Program program = lower(schedule, options);
    CHECK(first_finding(program) == "safe");
    const Costs costs = random_costs(random, program);
    const Timeline timeline = simulate(program, costs);
    CHECK(step_time(simulate_events(program, costs, {}, {})) == step_time(timeline));
    const auto peaks = memory_peaks(timeline);
    for (std::size_t device = 0; device < peaks.size(); ++device) {
      CHECK(peaks[device].bytes <= program.arena[device]);
    }
  }
}

TEST_CASE("replicas that take turns have other microbatches, so that none stands for all",
          "[turns]") {
  const Program program = lowered({2, 2}, 4);
  CHECK_FALSE(fold(program, uniform(program, chunk_costs(1ms, 2ms))).has_value());
  LowerOptions split = in_turn({2, 2});
  split.replica_policy = ReplicaPolicy::split;
  split.rows = 2;
  split.memory = {};
  const Program shared = lower(pipedream({.devices = 2, .microbatches = 4}), split);
  const auto folded = fold(shared, uniform(shared, chunk_costs(1ms, 2ms)));
  REQUIRE(folded);
  CHECK(folded->program.update_every == std::vector{1, 1});
}

TEST_CASE("under 2BW replicas take turns in groups that they share evenly", "[turns]") {
  ScheduleShape shape = shape_of({2, 1}, 12);
  shape.group = 4;
  const Program program = lower(pipedream_2bw(shape), in_turn({2, 1}));
  CHECK(program.update_every == std::vector{4, 4});
  CHECK(compute(program, 0) ==
        "F0@0 F2@0 B0@0 F4@0 B2@0 U3@1 F6@0 B4@0 F8@1 B6@0 U7@2 F10@1 B8@1 B10@1 U11@3");
  CHECK(first_finding(program) == "safe");
  shape.group = 3;
  CHECK(refusal(pipedream_2bw(shape), in_turn({2, 1})) ==
        "lower: the 2 replicas of stage 0 cannot take equally many turns in groups of 3 "
        "microbatches; nearest legal group: 2 or 4; or use \"split\"");
  Random random(37);
  for (int round = 0; round < 40; ++round) {
    CAPTURE(round);
    const Replicas replicas = random_replicas(random, 4, 3);
    const int unit = common_multiple(replicas), devices = devices_from(replicas, 0);
    const int least = rounded_up(std::max(devices - 1, 1), unit) * unit;
    ScheduleShape grouped = shape_of(replicas, 3 * least);
    grouped.group = least;
    const Program buffered = lower(pipedream_2bw(grouped), in_turn(replicas));
    CHECK(first_finding(buffered) == "safe");
    CHECK(1 + older_versions(buffered, 0) == 2);
  }
}

TEST_CASE("turns that do not fit the updates are refused with the nearest numbers", "[turns]") {
  const LowerOptions turns = in_turn({2, 1});
  CHECK(refusal(pipedream(shape_of({2, 1}, 7)), turns) ==
        "lower: the 2 replicas of stage 0 take turns and update after rounds of 2, but 7 "
        "microbatches are no whole number of them; nearest legal microbatches: 6 or 8; or use "
        "\"split\", or a schedule that flushes");
  CHECK_THAT(refusal(pipedream(shape_of({2, 3}, 10)), in_turn({2, 3})),
             ContainsSubstring("of stage 1 take turns and update after rounds of 3, but 10") &&
                 ContainsSubstring("nearest legal microbatches: 6 or 12;"));
  CHECK(refusal(pipedream_vertical_sync({.devices = 2, .microbatches = 6}), turns) ==
        "lower: the 2 replicas of stage 0 take turns at microbatches, and update after rounds of "
        "2, but pipedream-vertical-sync names one version for all stages, which count theirs in "
        "updates of their own; use \"split\", or the schedule pipedream");
  CHECK(
      refusal(pipedream_vertical_sync({.devices = 2, .microbatches = 5}), in_turn({1, 1})).empty());
  CHECK_THROWS_WITH(pipedream({.devices = 2, .microbatches = 4, .warm_up = {1, 2}}),
                    ContainsSubstring("pipedream: the warm-up must not grow"));
}

// --- Mutations ----------------------------------------------------------------------------------

TEST_CASE("check: a version of another round, an update of other turns", "[turns]") {
  const Program program = lowered({2, 1}, 12);
  REQUIRE(first_finding(program) == "safe");
  for (const std::string name : {"F0.6", "B0.7", "U0.5"}) {
    for (const int by : {-1, 1}) {
      Program mutant = program;
      const int device = name == "B0.7" ? 1 : 0;
      mutant.work[index(find_work(mutant, name, device))].weight_version += by;
      INFO(name << by);
      CHECK(found(check(mutant), "version", name));
    }
  }
  Program every = program;  // as if the first stage, too, updated after each microbatch
  every.update_every[0] = 1;
  CHECK(found(check(every), "conservation", "are never updated after microbatch 0"));
  CHECK(found(check(every), "conservation",
              "the update of stage 0 (replica 1 on device 1) after microbatch 0 sums 0 of its own "
              "microbatches, and 1 of stage 0 (replica 0 on device 0)"));
  Program late = program;
  late.update_every[0] = 4;
  CHECK(found(check(late), "conservation", "U0.1 on device 0 (stage 0, replica 0) stands where"));
}

TEST_CASE("check: a round without the sum of all replicas", "[turns]") {
  Program program = lowered({2, 1}, 6);
  const int update = find_work(program, "U0.3", 1);
  program.work[index(update)].waits = {};
  const int sum = find_work(program, "G0.3", 1);
  auto& order = program.order[1];
  std::erase(order, sum);
  order.insert(std::ranges::find(order, update) + 1, sum);
  CHECK(found(check(program), "order",
              "U0.3 on device 1 (stage 0, replica 1) may start before the gradients of the 2 "
              "replicas of stage 0 are summed"));
}
