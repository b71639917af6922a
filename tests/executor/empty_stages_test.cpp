// Stages without layers hand on what they get: training comes to the bits of training without them.

#include "simulator/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/executor/equality_matrix.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

std::string difference(const Setting& setting) {
  const Prepared prepared = prepare(setting);
  const RunOptions options{.steps = 3};
  return first_difference(run(prepared, options), reference(prepared, options));
}

/// The same layers on as many devices as have some.
RunResult result_of(const Setting& setting) {
  return run(prepare(setting), {.steps = 3});
}

}  // namespace

TEST_CASE("a pipeline with empty stages trains as the one without") {
  const RunResult filled = result_of({.devices = 3, .cuts = {0, 3, 5, 8}});
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    const RunResult result =
        result_of({.devices = 5, .recompute = recompute, .cuts = {0, 3, 3, 5, 5, 8}});
    CHECK(result.losses == filled.losses);
    CHECK(result.parameters_hash == filled.parameters_hash);
  }
}

TEST_CASE("empty chunks stand beside others on their devices, and beside each other") {
  // Two devices, four stages each; and a V, whose turn is empty.
  CHECK(difference({.schedule = "interleaved",
                    .devices = 2,
                    .virtual_stages = 4,
                    .cuts = {0, 1, 3, 3, 3, 4, 4, 6, 8}}) == "");
  CHECK(difference({.schedule = "interleaved",
                    .devices = 1,
                    .virtual_stages = 5,
                    .cuts = {0, 2, 2, 2, 5, 8}}) == "");
  for (const std::string schedule : {"zb-v", "zbv-auto", "dualpipev"}) {
    INFO(schedule);
    CHECK(difference({.schedule = schedule,
                      .devices = 2,
                      .virtual_stages = 2,
                      .microbatches = 6,
                      .cuts = {0, 4, 4, 4, 8}}) == "");
  }
}

TEST_CASE("so it is with replicas, tensor parallelism, shards, and both ways to share",
          "[seconds]") {
  for (const Sharding sharding : {Sharding::none, Sharding::zero1}) {
    for (const ReplicaPolicy policy : {ReplicaPolicy::split, ReplicaPolicy::round_robin}) {
      const Setting setting{.devices = 4,
                            .rows = 6,
                            .replicas = {2, 3, 1, 2},
                            .policy = policy,
                            .sharding = sharding,
                            .cuts = {0, 3, 3, 3, 8}};
      INFO(describe(setting));
      CHECK(difference(setting) == "");
    }
  }
  const Setting peers{.devices = 3, .degrees = {2, 2, 2}, .cuts = {0, 4, 4, 8}};
  const Setting filled{.devices = 2, .degrees = {2, 2}, .cuts = {0, 4, 8}};
  CHECK(result_of(peers).parameters_hash == result_of(filled).parameters_hash);
  CHECK(result_of(peers).losses == result_of(filled).losses);
}

TEST_CASE("a device with nothing but an empty stage holds what passes, and no weights") {
  const Prepared prepared = prepare({.devices = 3, .microbatches = 6, .cuts = {0, 4, 4, 8}});
  const Compiled compiled = traced(prepared).compiled;
  const RunResult result = run(prepared, {.steps = 2});
  CHECK(result.allocated_memory == compiled.program.arena);
  // Samples of 8 tokens x 16 numbers. Of two microbatches ahead each is there once, or twice while
  // it is handed on.
  const Bytes message = Bytes{2} * 8 * 16 * 4;
  CHECK(result.peak_memory[1] >= 2 * message);
  CHECK(result.peak_memory[1] <= 4 * message);
  for (const Buffer& buffer : compiled.program.buffers) {
    if (buffer.device == 1) CHECK(buffer.bytes == message);
  }
}
