// What single schedules and policies add: shards of the optimizer, copies of the model, loans.

#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("a sharded optimizer takes the whole one's steps and keeps its share of the state") {
  for (const std::vector<int>& replicas : {std::vector{2, 2}, {3, 1}, {1, 2}, {2, 3}}) {
    const Setting setting{.devices = 2,
                          .microbatches = 3,
                          .rows = 6,
                          .replicas = replicas,
                          .sharding = Sharding::zero1};
    INFO(describe(setting));
    const Prepared prepared = prepare(setting);
    const RunResult sharded = run(prepared, {.steps = 3});
    CHECK(first_difference(sharded, reference(prepared, {.steps = 3})) == "");
    Setting whole = setting;
    whole.sharding = Sharding::none;
    const RunResult unsharded = run(prepare(whole), {.steps = 3});
    CHECK(sharded.parameters_hash == unsharded.parameters_hash);
    // Two moments of every weight, of which n replicas keep a part each.
    for (int device = 0, rank = 0; device < 2; ++device) {
      const auto i = static_cast<std::size_t>(device);
      for (int replica = 0; replica < replicas[i]; ++replica, ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        const Bytes saved = unsharded.peak_memory[r] - sharded.peak_memory[r];
        CHECK((replicas[i] > 1 ? saved > 0 : saved == 0));
      }
    }
  }
}

TEST_CASE("copies of the model in four pipes, and shards over both directions") {
  for (const Sharding sharding : {Sharding::none, Sharding::zero1}) {
    for (const std::string schedule : {"chimera", "chimera-doubling", "dualpipe"}) {
      const bool four = schedule == "chimera";
      const Setting setting{.schedule = schedule,
                            .devices = 4,
                            .microbatches = 8,
                            .replicas = four ? std::vector{2, 2, 2, 2} : std::vector<int>{},
                            .sharding = sharding,
                            .pipes = four ? std::optional(4) : std::nullopt};
      INFO(describe(setting));
      const Prepared prepared = prepare(setting);
      CHECK(first_difference(run(prepared, {.steps = 2}), reference(prepared, {.steps = 2})) == "");
    }
  }
}

TEST_CASE("what is lent to a partner leaves the lender's memory") {
  // Device 0 of 4 holds three microbatches where 1f1b holds four, and device 3 keeps one for it.
  const Setting lending{.schedule = "bpipe", .devices = 4, .microbatches = 8, .rows = 4};
  Setting keeping = lending;
  keeping.schedule = "1f1b";
  const RunResult lent = run(prepare(lending), {.steps = 2});
  const RunResult kept = run(prepare(keeping), {.steps = 2});
  CHECK(lent.parameters_hash == kept.parameters_hash);
  CHECK(lent.peak_memory[0] < kept.peak_memory[0]);
  CHECK(lent.peak_memory[3] > kept.peak_memory[3]);
}
