// A sharded optimizer (ZeRO-1): what it costs, what it saves, and what `check` says when it is
// lowered wrongly.

#include "simulator/engines/steady.hpp"
#include "tests/simulator/check_reports.hpp"
#include "tests/simulator/check_settings.hpp"
#include "tests/simulator/mutations.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Two stages of two replicas each.
const Setting sharded{
    .devices = 2, .microbatches = 4, .replicas = {2, 2}, .rows = 2, .sharding = Sharding::zero1};

/// F 10, B 20, U 6; sums take 4, collecting 5.
Costs costs_of(const Program& program) {
  ChunkCosts chunk = chunk_costs(10ms, 20ms);
  chunk.update = 6ms;
  Costs costs = uniform(program, chunk);
  for (std::size_t i = 0; i < program.groups.size(); ++i) {
    costs.groups[i] = program.groups[i].op == Op::gather_parameters ? 5ms : 4ms;
  }
  return costs;
}

Bytes resident_bytes(const Program& program, int chunk, BufferRole role) {
  for (const int i : program.resident) {
    const Buffer& buffer = program.buffers[index(i)];
    if (buffer.chunk == chunk && buffer.role == role) return buffer.bytes;
  }
  return 0;
}

/// The end of this iteration's work of this name on the device.
Duration end_of(const Timeline& timeline, int device, const Instruction& instruction,
                int iteration) {
  for (const Span& span : timeline.spans) {
    if (span.device == device && span.instruction == instruction && span.iteration == iteration) {
      return span.end;
    }
  }
  FAIL("no " << to_string(instruction));
  return {};
}

}  // namespace

TEST_CASE("sharded: gradients are scattered, shards updated, parameters collected") {
  const Program program = lowered(sharded);
  CHECK(first_finding(program) == "safe");
  CHECK_THAT(order_text(program, 0), ContainsSubstring("B0.3 GS0.3 U0.3 P0.3"));
  REQUIRE(program.groups.size() == 4);
  CHECK(program.groups[0] ==
        Group{.op = Op::reduce_scatter, .chunks = {0, 1}, .bytes = memory_of(0).gradients});
  CHECK(program.groups[2] ==
        Group{.op = Op::gather_parameters, .chunks = {0, 1}, .bytes = memory_of(0).parameters});
  CHECK(resident_bytes(program, 0, BufferRole::optimizer) == memory_of(0).optimizer / 2);
  CHECK(resident_bytes(program, 0, BufferRole::parameters) == memory_of(0).parameters);
  CHECK(resident_bytes(program, 0, BufferRole::gradients) == memory_of(0).gradients);
  CHECK(check(program).proved.size() ==
        check(lowered({.replicas = {2, 2, 1, 1}, .rows = 2})).proved.size() + 1);
}

TEST_CASE("sharded: three replicas round their shares up, one keeps all") {
  const Program program = lowered({.devices = 2,
                                   .microbatches = 2,
                                   .replicas = {3, 1},
                                   .rows = 3,
                                   .sharding = Sharding::zero1});
  CHECK(resident_bytes(program, 0, BufferRole::optimizer) == (memory_of(0).optimizer + 2) / 3);
  CHECK(resident_bytes(program, 3, BufferRole::optimizer) == memory_of(1).optimizer);
  CHECK(program.groups.size() == 2);
  CHECK(first_finding(program) == "safe");
}

TEST_CASE("sharded 1F1B takes the pipeline, the sum, the update and the collection") {
  const Program program = lowered(sharded);
  const Costs costs = costs_of(program);
  const Duration step = (4 + 2 - 1) * 30ms + 4ms + 6ms + 5ms;
  CHECK(step_time(simulate(program, costs)) == step);
  // The next forward needs the parameters.
  const auto steady = steady_iterations(program, costs);
  REQUIRE(steady.has_value());
  CHECK(steady->time == steady->period * step);
}

TEST_CASE("sharded: a forward of the next iteration waits for its own parameters only") {
  const Schedule schedule =
      find_schedule("looped-bfs").generate({.devices = 1, .microbatches = 2, .virtual_stages = 2});
  const Program program =
      lower(schedule, {.replicas = {{0, 1}, {0, 1}}, .rows = 2, .sharding = Sharding::zero1});
  CHECK(first_finding(program) == "safe");
  Costs costs = uniform(program, chunk_costs(10ms, 20ms));
  for (std::size_t i = 0; i < program.groups.size(); ++i) {
    if (program.groups[i].op == Op::gather_parameters) costs.groups[i] = 15ms;
  }
  // Those of stage 0 are collected first, those of stage 1 while stage 0 computes.
  const Timeline timeline = simulate(program, costs, {.iterations = 2, .barrier = false});
  CHECK(end_of(timeline, 0, {Op::forward, 0, 0}, 1) ==
        end_of(timeline, 0, {Op::update, 0, 1}, 0) + 15ms + 10ms);
  CHECK(end_of(timeline, 0, {Op::forward, 1, 1}, 1) ==
        end_of(timeline, 0, {Op::forward, 0, 0}, 1) + 30ms);
}

TEST_CASE("sharded copies of the model keep a share each, over pipes and replicas") {
  const Program program = lowered(
      {.schedule = "chimera", .devices = 2, .microbatches = 4, .sharding = Sharding::zero1});
  CHECK(first_finding(program) == "safe");
  CHECK(program.groups[0].chunks == std::vector{0, 2});
  CHECK(resident_bytes(program, 0, BufferRole::optimizer) == memory_of(0).optimizer / 2);
}

TEST_CASE("sharded weights that are updated on the way are collected before they are read") {
  for (const char* name : {"pipedream", "pipedream-vertical-sync", "pipedream-2bw"}) {
    CAPTURE(name);
    Setting setting = sharded;
    setting.schedule = name;
    setting.microbatches = 8;
    const Program program = lowered(setting);
    CHECK(first_finding(program) == "safe");
    // The first forward that reads what the first update made.
    const auto reads = std::find_if(program.work.begin(), program.work.end(), [](const Work& it) {
      return it.instruction.op == Op::forward && it.weight_version == 1;
    });
    REQUIRE(reads != program.work.end());
    const int work = static_cast<int>(reads - program.work.begin());
    Program mutant = program;
    for (const int on : waits_of(program, work)) {
      if (program.work[index(on)].instruction.op == Op::gather_parameters) {
        drop_wait(mutant, work, on);
      }
    }
    CHECK_THAT(first_finding(mutant), ContainsSubstring("all shards of its parameters are there"));
  }
}

TEST_CASE("check: a sharded optimizer lowered wrongly") {
  const Program program = lowered(sharded);
  const int update = find_work(program, "U0.3"), scatter = find_work(program, "GS0.3"),
            gather = find_work(program, "P0.3");
  SECTION("an update before its gradients are summed") {
    Program mutant = program;
    drop_wait(mutant, update, scatter);
    CHECK_THAT(first_finding(mutant), ContainsSubstring("order: U0.3 on device 0") &&
                                          ContainsSubstring("2 replicas of stage 0 are summed"));
  }
  SECTION("the sum after the update") {
    Program mutant = program;
    drop_wait(mutant, update, scatter);
    mutant.waits[index(mutant.work[index(scatter)].waits.first)] = update;
    CHECK_THAT(all_messages(check(mutant)), ContainsSubstring("order: U0.3 on device 0"));
  }
  SECTION("parameters collected before they are updated") {
    Program mutant = program;
    drop_wait(mutant, gather, update);
    CHECK_THAT(first_finding(mutant), ContainsSubstring("the parameters it collects are updated"));
  }
  SECTION("parameters that are never collected") {
    Program mutant = program;
    for (int i = static_cast<int>(mutant.work.size()); i-- > 0;) {
      if (to_string(mutant.work[index(i)].instruction) == "P0.3") mutant = without(mutant, i);
    }
    CHECK_THAT(first_finding(mutant), ContainsSubstring("sharding: the shards that U0.3") &&
                                          ContainsSubstring("are never collected"));
  }
  SECTION("one that does not take part") {
    Program mutant = without(program, gather);
    CHECK_THAT(all_messages(check(mutant)), ContainsSubstring("waits for members that never come"));
  }
  SECTION("the next iteration does not wait") {
    Program mutant = program;
    mutant.carried.erase(mutant.carried.begin());
    CHECK_THAT(first_finding(mutant), ContainsSubstring("sharding: F0.0 on device 0") &&
                                          ContainsSubstring("of the next iteration may start"));
    mutant = program;
    mutant.carried.front().work = find_work(program, "F0.1");
    CHECK_THAT(first_finding(mutant), ContainsSubstring("of the next iteration may start"));
  }
  SECTION("the next iteration waits for what its device cannot see") {
    Program mutant = program;
    mutant.carried.front().on = find_work(program, "P1.3");
    CHECK_THAT(first_finding(mutant), ContainsSubstring("structure: F0.0 on device 0"));
    mutant.carried.front().on = -1;
    CHECK_THAT(first_finding(mutant), ContainsSubstring("that does not exist"));
  }
  SECTION("gradients summed twice") {
    Program mutant = program;
    for (const int work : {scatter, scatter + 1}) repeat(mutant, work);
    CHECK_THAT(all_messages(check(mutant)), ContainsSubstring("sharding: GS0.3 on device 0") &&
                                                ContainsSubstring("sums gradients a second time"));
  }
  SECTION("shards where nothing is sharded, and whole gradients where something is") {
    Program mutant = program;
    mutant.sharding = Sharding::none;
    CHECK_THAT(all_messages(check(mutant)),
               ContainsSubstring("but the optimizer of stage 0 is not sharded"));
    Setting whole = sharded;
    whole.sharding = Sharding::none;
    mutant = lowered(whole);
    mutant.sharding = Sharding::zero1;
    CHECK_THAT(all_messages(check(mutant)), ContainsSubstring("sums whole gradients for a shard"));
  }
}

TEST_CASE("shards of tied weights must line up") {
  const Schedule schedule = find_schedule("chimera").generate({.devices = 2, .microbatches = 2});
  const LowerOptions options{.replicas = {{0}, {1, 2}, {1, 2}, {0}},
                             .rows = 2,
                             .ties = {{.owner = 0, .user = 1, .bytes = 8}},
                             .sharding = Sharding::zero1};
  CHECK_THROWS_WITH(lower(schedule, options), ContainsSubstring("do not line up"));
}
