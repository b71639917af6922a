// Updates on the way: old versions of the weights, against a reference that keeps them all.

#include <map>

#include "executor/driver/machinery.hpp"
#include "executor/weights/weight_versions.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Twenty updates in one go.
Setting twenty_updates(const std::string& schedule, int devices, OptimizerKind optimizer) {
  const int group = schedule == "pipedream-2bw" ? std::max(2, devices - 1) : 1;
  return {.schedule = schedule,
          .devices = devices,
          .microbatches = 20 * group,
          .rows = 1,
          .optimizer = optimizer,
          .tied = false,
          .group = schedule == "pipedream-2bw" ? std::optional(group) : std::nullopt};
}

const RunOptions lively{
    .steps = 1, .adamw = {.learning_rate = 1e-2}, .sgd = {.learning_rate = 0.5}};

std::string difference(const Setting& setting, const RunOptions& options) {
  const Prepared prepared = prepare(setting);
  return first_difference(run(prepared, options), reference(prepared, options));
}

RunResult run_unchecked(const Prepared& prepared, const RunOptions& options) {
  Machinery machinery;
  machinery.trusts_program = true;
  return execute(prepared.plan, prepared.profile, prepared.compiled, prepared.dataset, options,
                 machinery);
}

/// Each backward reads the newest weights of its device instead of those of its forward.
void read_newest_in_backward(Program& program) {
  for (const auto& order : program.order) {
    int newest = 0;
    for (const int i : order) {
      Work& work = program.work[static_cast<std::size_t>(i)];
      if (work.instruction.op == Op::update) newest = work.weight_version;
      if (is_backward(work.instruction.op)) work.weight_version = newest;
    }
  }
}

}  // namespace

TEST_CASE("stashing, vertical sync and two versions follow their formulas through twenty updates",
          "[seconds]") {
  for (const std::string schedule : {"pipedream", "pipedream-vertical-sync", "pipedream-2bw"}) {
    for (const int devices : {1, 2, 4}) {
      for (const OptimizerKind optimizer : {OptimizerKind::sgd, OptimizerKind::adamw}) {
        const Setting setting = twenty_updates(schedule, devices, optimizer);
        INFO(describe(setting));
        CHECK(difference(setting, lively) == "");
      }
    }
  }
}

TEST_CASE("so they do with replicas, recomputation, sharded optimizers and several steps",
          "[seconds]") {
  for (const std::string schedule : {"pipedream", "pipedream-vertical-sync", "pipedream-2bw"}) {
    for (const Sharding sharding : {Sharding::none, Sharding::zero1}) {
      const Setting setting{.schedule = schedule,
                            .devices = 3,
                            .microbatches = 6,
                            .rows = 3,
                            .replicas = {2, 1, 3},
                            .recompute = Recompute::full,
                            .tied = false,
                            .sharding = sharding};
      INFO(describe(setting));
      CHECK(difference(setting, {.steps = 3}) == "");
    }
  }
}

TEST_CASE("so they do where replicas take turns, each stage in rounds of its own",
          "[turns][seconds]") {
  const std::vector<std::vector<int>> counts{{2, 1}, {3, 1}, {1, 2}, {2, 3}, {2, 1, 2}, {3, 1, 1}};
  for (const std::vector<int>& replicas : counts) {
    for (const OptimizerKind optimizer : {OptimizerKind::sgd, OptimizerKind::adamw}) {
      Setting setting{.schedule = "pipedream",
                      .devices = static_cast<int>(replicas.size()),
                      .microbatches = 24,
                      .rows = 2,
                      .replicas = replicas,
                      .policy = ReplicaPolicy::round_robin,
                      .optimizer = optimizer,
                      .tied = false};
      INFO(describe(setting));
      CHECK(difference(setting, lively) == "");
      setting.sharding = Sharding::zero1;
      setting.recompute = Recompute::full;
      setting.microbatches = 12;
      CHECK(difference(setting, {.steps = 3}) == "");
      setting.schedule = "pipedream-2bw";
      setting.group = 6;
      if (is_legal(setting)) CHECK(difference(setting, {.steps = 2}) == "");
    }
  }
}

TEST_CASE("a round steps by the mean of its gradients, as one replica does with all its samples",
          "[turns]") {
  // In the first round nothing has been updated: two microbatches of one replica each are the mean
  // that a single one of twice the size is.
  const Setting turns{.schedule = "pipedream",
                      .devices = 1,
                      .microbatches = 2,
                      .rows = 2,
                      .replicas = {2},
                      .policy = ReplicaPolicy::round_robin,
                      .optimizer = OptimizerKind::sgd,
                      .precision = Precision::float64,
                      .tied = false};
  Setting whole = turns;
  whole.schedule = "1f1b";
  whole.microbatches = 1;
  whole.rows = 4;
  whole.replicas = {};
  const Distance apart = distance(run(prepare(turns), lively), run(prepare(whole), lively));
  CHECK(apart.losses < 1e-12);
  CHECK(apart.weights < 1e-12);
}

TEST_CASE("reading the newest weights in backward is found, by the check and by the bits") {
  for (const std::string schedule : {"pipedream", "pipedream-vertical-sync", "pipedream-2bw"}) {
    Prepared prepared = prepare(twenty_updates(schedule, 3, OptimizerKind::sgd));
    INFO(schedule);
    const RunResult expected = reference(prepared, lively);
    CHECK(first_difference(run_unchecked(prepared, lively), expected) == "");
    read_newest_in_backward(prepared.compiled.program);
    CHECK_THROWS_WITH(run(prepared, lively), ContainsSubstring("version"));
    CHECK(first_difference(run_unchecked(prepared, lively), expected) != "");
  }
}

TEST_CASE("weights that are updated on the way are stale, but train") {
  const Setting setting{.schedule = "pipedream", .devices = 3, .microbatches = 60, .tied = false};
  const RunResult result = run(prepare(setting), {.steps = 3, .adamw = {.learning_rate = 3e-3}});
  CHECK(result.losses.back() < result.losses.front() - 0.2);
}

TEST_CASE(
    "device r of p keeps p - r versions, all p with vertical sync, and two of double buffers") {
  const auto versions = [](const std::string& schedule) {
    const Prepared prepared = prepare(twenty_updates(schedule, 4, OptimizerKind::sgd));
    std::vector<int> counts;
    for (int chunk = 0; chunk < 4; ++chunk) {
      const std::vector<int> slots =
          slots_of_versions(updates_before_last_reader(prepared.compiled.program, chunk));
      counts.push_back(*std::max_element(slots.begin(), slots.end()) + 1);
    }
    return counts;
  };
  CHECK(versions("pipedream") == std::vector{4, 3, 2, 1});
  CHECK(versions("pipedream-vertical-sync") == std::vector{4, 4, 4, 4});
  CHECK(versions("pipedream-2bw") == std::vector{2, 2, 2, 2});
}

TEST_CASE("replicas that take turns keep as many versions as have microbatches in flight",
          "[turns]") {
  const Prepared prepared = prepare({.schedule = "pipedream",
                                     .devices = 2,
                                     .microbatches = 12,
                                     .replicas = {3, 1},
                                     .policy = ReplicaPolicy::round_robin,
                                     .tied = false});
  // Four in flight over three replicas: two on each; a straight pipeline of four devices has four.
  for (const auto& [chunk, versions] : {std::pair(0, 2), {1, 2}, {2, 2}, {3, 1}}) {
    const std::vector<int> slots =
        slots_of_versions(updates_before_last_reader(prepared.compiled.program, chunk));
    CHECK(*std::max_element(slots.begin(), slots.end()) + 1 == versions);
  }
}

TEST_CASE("a version is made in its predecessor's place if nobody reads that any more") {
  CHECK(slots_of_versions(std::vector{0}) == std::vector{0});
  CHECK(slots_of_versions(std::vector{0, 1, 2}) == std::vector{0, 0, 0});
  CHECK(slots_of_versions(std::vector{1, 2, 2}) == std::vector{0, 1, 0});
  CHECK(slots_of_versions(std::vector{2, 3, 4, 5, 5}) == std::vector{0, 1, 2, 0, 1});
}

TEST_CASE("weights that two stages share have no update of their own time") {
  Setting setting = twenty_updates("pipedream", 2, OptimizerKind::sgd);
  setting.tied = true;
  CHECK_THROWS_WITH(prepare(setting),
                    ContainsSubstring("stages 0 and 1 share weights, but pipedream updates them at "
                                      "different times"));
  setting.devices = 1;
  CHECK(difference(setting, lively) == "");  // one stage has one time
}
