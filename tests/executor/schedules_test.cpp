// What single schedules and policies add: shards of the optimizer, copies of the model, loans.

#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("a sharded optimizer takes the whole one's steps", "[seconds]") {
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
  }
}

TEST_CASE("copies of the model in four pipes, and shards over both directions", "[seconds]") {
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

TEST_CASE("what is lent to a partner comes back unchanged") {
  // Device 0 of 4 holds three microbatches where 1f1b holds four, and device 3 keeps one for it.
  const Setting lending{.schedule = "bpipe", .devices = 4, .microbatches = 8, .rows = 4};
  Setting keeping = lending;
  keeping.schedule = "1f1b";
  const RunResult lent = run(prepare(lending), {.steps = 2});
  const RunResult kept = run(prepare(keeping), {.steps = 2});
  CHECK(lent.parameters_hash == kept.parameters_hash);
  CHECK(first_difference(lent, kept) == "");
}
