// Plans whose stages split their layers over tensor-parallel peers: every run ends where the single
// device ends, to rounding, since products are cut along the sum; and twice the same bits.

#include "executor/driver/ranks.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

std::vector<Setting> split_settings() {
  return {
      {.devices = 1, .degrees = {2}},
      {.devices = 1, .degrees = {4}, .heads = 4},
      {.devices = 2, .degrees = {2, 2}},
      {.devices = 2, .tied = false, .degrees = {1, 2}, .heads = 4},
      {.devices = 3, .tied = false, .degrees = {4, 1, 2}, .heads = 4},
      {.schedule = "gpipe", .devices = 2, .recompute = Recompute::full, .degrees = {2, 2}},
      {.schedule = "zb-h1", .devices = 2, .degrees = {2, 2}, .again = every_choice()},
      {.devices = 2, .replicas = {2, 1}, .degrees = {2, 2}},
      {.devices = 2, .replicas = {1, 2}, .policy = ReplicaPolicy::round_robin, .degrees = {2, 2}},
      {.devices = 2, .replicas = {2, 2}, .sharding = Sharding::zero1, .degrees = {2, 2}},
      {.devices = 2, .style = Style::llama, .tied = false, .degrees = {2, 2}, .heads = 4},
      {.devices = 2, .style = Style::llama, .degrees = {2, 2}, .heads = 4},
      {.devices = 2, .optimizer = OptimizerKind::sgd, .degrees = {2, 2}},
      {.schedule = "interleaved", .devices = 2, .virtual_stages = 2, .degrees = {2, 2}},
      {.schedule = "zb-h1", .devices = 2, .degrees = {2, 2}},
      {.schedule = "zb-v", .devices = 2, .virtual_stages = 2, .degrees = {2, 2}},
      {.schedule = "chimera", .devices = 2, .degrees = {2, 2}},
      {.schedule = "bpipe",
       .devices = 4,
       .microbatches = 8,
       .tied = false,
       .degrees = {2, 2, 2, 2}},
      {.schedule = "pipedream", .devices = 2, .tied = false, .degrees = {2, 2}},
      {.schedule = "pipedream-2bw", .devices = 2, .tied = false, .degrees = {2, 2}},
  };
}

}  // namespace

TEST_CASE("peers train what one device trains, to rounding", "[tensor_parallel][seconds]") {
  for (Setting setting : split_settings()) {
    for (const Precision precision : {Precision::float64, Precision::float32}) {
      setting.precision = precision;
      INFO(describe(setting) << (precision == Precision::float64 ? ", fp64" : ", fp32"));
      const Prepared prepared = prepare(setting);
      const RunOptions options{.steps = 3};
      const RunResult split = run(prepared, options);
      const Distance apart = distance(split, reference(prepared, options));
      CHECK(apart.losses <= rounding_tolerance(precision));
      CHECK(apart.weights <= rounding_tolerance(precision));
      CHECK(apart.weights > 0);
      // What peers write down of a step is a part of it.
      CHECK(step_time(split.timeline) <= std::ranges::max(split.step_times));
      CHECK(std::ranges::max(split.step_times) < 1min);
      CHECK(first_difference(split, run(prepared, options)) == "");
    }
  }
}

TEST_CASE("a message goes to every peer of the receiving device", "[tensor_parallel]") {
  const Prepared prepared =
      prepare({.devices = 3, .tied = false, .degrees = {4, 1, 2}, .heads = 4});
  const Program& program = prepared.compiled.program;
  const RankMap ranks = ranks_of(prepared.plan, program);
  CHECK(ranks.ranks() == 7);
  for (int rank = 0; rank < ranks.ranks(); ++rank) {
    CHECK(ranks.degree_of(rank) ==
          std::vector{4, 4, 4, 4, 1, 2, 2}[static_cast<std::size_t>(rank)]);
    CHECK(ranks.peer_of(rank) == std::vector{0, 1, 2, 3, 0, 0, 1}[static_cast<std::size_t>(rank)]);
  }
  std::vector<int> received(ranks.wiring().channels.size());
  for (std::size_t c = 0; c < program.channels.size(); ++c) {
    for (int rank = 0; rank < ranks.ranks(); ++rank) {
      const int device = program.chunks[static_cast<std::size_t>(program.channels[c].from)].device;
      if (ranks.device_of(rank) != device) continue;
      for (const int channel : ranks.channels_from(rank, static_cast<int>(c))) {
        const ChannelEnds& ends = ranks.wiring().channels[static_cast<std::size_t>(channel)];
        CHECK(ends.from == rank);
        CHECK(ranks.channel_to(ends.to, static_cast<int>(c)) == channel);
        ++received[static_cast<std::size_t>(channel)];
      }
    }
  }
  CHECK(received == std::vector<int>(received.size(), 1));
}

TEST_CASE("sums need equally many peers on all sides", "[tensor_parallel]") {
  const Prepared tied = prepare({.devices = 2, .degrees = {1, 2}, .heads = 4});
  CHECK_THROWS_MATCHES(
      run(tied, {.steps = 1}), Error,
      Catch::Message("run: stage 0, replica 0 (tensor-parallel degree 1) and stage 1, replica 0 "
                     "(tensor-parallel degree 2) add up gradients, which the executor does only "
                     "between equal degrees"));
}

TEST_CASE("a failing peer is named", "[tensor_parallel]") {
  const Prepared prepared = prepare({.devices = 2, .degrees = {2, 2}});
  const RankMap ranks = ranks_of(prepared.plan, prepared.compiled.program);
  CHECK(name_of_rank(prepared.compiled.program, ranks, 3, {}) ==
        "rank 3 (stage 1, replica 0, tensor-parallel peer 1)");
}
