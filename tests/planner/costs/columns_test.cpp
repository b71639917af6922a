#include "planner/costs/columns.hpp"

#include <numeric>

#include "planner/costs/compile.hpp"
#include "planner/plan/plan_fault.hpp"
#include "simulator/checks/check.hpp"
#include "simulator/schedules/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

struct Case {
  Plan plan;
  Profile profile;
  Cluster cluster;
};

/// Stages with a multiple of `columns` replicas, in blocks of consecutive devices: block q of a
/// stage holds the q-th replica of every column.
Case random_case(std::uint32_t seed) {
  Random random(seed);
  const int columns = 1 << random.between(0, 2);
  const int stages = random.between(1, 4);
  Case what;
  std::vector<LayerCost> costs;
  for (int layer = 0; layer < stages + 2; ++layer) costs.push_back(random_cost(random));
  const std::int64_t rows = std::int64_t{2} * columns;
  for (LayerCost& cost : costs) cost.output -= random.chance(90) ? cost.output % rows : 0;
  what.profile = profile_of(std::move(costs), rows);
  what.cluster = cluster_of({{8, random_link(random)}, {4, random_link(random)}}, 40000);
  if (random.chance(10)) {
    what.cluster.overrides.push_back({random.between(0, 9), 10, random_link(random)});
  }
  Plan& plan = what.plan;
  const int microbatches = random.between(1, 5);
  plan.batch = {rows * microbatches, rows, microbatches, 0};
  plan.schedule.name = random.chance(50) ? "1f1b" : "gpipe";
  if (random.chance(40)) plan.optimizer.sharding = Sharding::zero1;
  if (random.chance(30)) plan.optimizer.gradient_bucket = random.between(1, 5000);
  int device = 0, layer = 0;
  for (int s = 0; s < stages; ++s) {
    const int width = random.between(1, 2);
    Stage stage;
    stage.layers = {layer, s + 1 == stages ? stages + 2 : layer + 1};
    layer = stage.layers.end;
    for (int column = 0; column < columns; ++column) {
      for (int q = 0; q < width; ++q) stage.devices.push_back({device + q * columns + column});
    }
    device += width * columns;
    if (random.chance(30)) stage.recompute = Recompute::full;
    plan.stages.push_back(std::move(stage));
  }
  if (stages % 2 == 0 && random.chance(50)) {
    plan.schedule.name = random.chance(50) ? "dualpipe" : "chimera";
    plan.batch.microbatches = 2 * stages;
    plan.batch.global = rows * plan.batch.microbatches;
    for (Stage& stage : plan.stages) stage.recompute = Recompute::none;
  }
  if (stages > 1 && find_schedule(plan.schedule.name).placement == StagePlacement::linear &&
      random.chance(25))
    what.profile.model.ties.push_back({0, stages + 1, 300});
  return what;
}

}  // namespace

TEST_CASE("one column tells the step and every device's peak", "[columns][seconds]") {
  int folded = 0, of_two_pipes = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const Case what = random_case(seed);
    INFO("seed " << seed);
    CostBook book(what.profile, what.cluster, {});
    if (find_fault(what.plan, what.profile.model, what.cluster)) continue;
    const Compiled column = compile_column(what.plan, book);
    folded += column.stand_ins.empty() ? 0 : 1;
    of_two_pipes += column.stand_ins.empty() || column.program.pipes == 1 ? 0 : 1;
    const Prediction fast = predict(what.plan, column);
    const Prediction whole = predict(what.plan, compile_valid(what.plan, book));
    CHECK(fast.step == whole.step);
    CHECK(fast.bubble == Approx(whole.bubble));
    CHECK(fast.busy == whole.busy);
    CHECK(fast.memory_limits == whole.memory_limits);
    CHECK(fast.stages == whole.stages);
    CHECK(device_peaks(what.plan, fast) == device_peaks(what.plan, whole));
  }
  CHECK(folded > 100);
  CHECK(of_two_pipes > 10);
}

TEST_CASE("columns on unlike links or devices are not alike", "[columns]") {
  const Profile profile = profile_of({layer_cost(1ms, 2ms), layer_cost(1ms, 2ms)}, 2);
  Cluster cluster = cluster_of({{4, link_of(1us, 1000)}});
  Plan plan;
  plan.batch = {2, 2, 1, 0};
  plan.stages = {{{0, 1}, {{0}, {1}}, Recompute::none}, {{1, 2}, {{2}, {3}}, Recompute::none}};
  const auto columns = [&] {
    CostBook book(profile, cluster, {});
    return columns_of(plan, book);
  };
  CHECK(columns() == 2);
  plan.replicas = ReplicaPolicy::round_robin;
  CHECK(columns() == 1);
  plan.replicas = ReplicaPolicy::split;
  cluster.overrides.push_back({3, 1, link_of(5us, 1000)});
  CHECK(columns() == 1);
  cluster.overrides.clear();
  cluster.kinds.push_back(cluster.kinds.front());
  cluster.devices[3] = 1;
  CHECK(columns() == 1);
}

TEST_CASE("blocks are alike where they and the parts of every level nest", "[columns]") {
  const Cluster cluster = cluster_of({{3, {}}, {4, {}}});
  for (const int devices : {1, 2, 4, 8, 12}) CHECK(has_alike_blocks(cluster, devices));
  for (const int devices : {3, 5, 6, 10}) CHECK_FALSE(has_alike_blocks(cluster, devices));
  const Cluster flat = cluster_of({{9, {}}});
  for (int devices = 1; devices <= 9; ++devices) CHECK(has_alike_blocks(flat, devices));
}

TEST_CASE("of a plan too large to read one column is compiled, safe and as fast", "[columns]") {
  LayerCost cost = layer_cost(30us, 60us);
  cost.output = cost.saved = 6400;
  Case what{.plan = {},
            .profile = profile_of(std::vector<LayerCost>(2, cost), 64),
            .cluster = cluster_of({{128, link_of(1us, 1'000'000'000)}})};
  what.plan.batch = {64 * 500, 64, 500, 0};
  for (int stage = 0; stage < 2; ++stage) {
    Stage& each = what.plan.stages.emplace_back();
    each.layers = {stage, stage + 1};
    for (int replica = 0; replica < 64; ++replica) each.devices.push_back({64 * stage + replica});
  }
  const Compiled column = compile_to_read(what.plan, what.profile, what.cluster);
  CHECK(column.program.devices == 2);
  CHECK(column.stand_ins.size() == 128);
  REQUIRE_FALSE(column.notes.empty());
  CHECK_THAT(column.notes.back(), ContainsSubstring("64 alike pipelines"));
  CHECK(check(column.program).findings.empty());
  const Prediction read = predict(what.plan, column);
  const Prediction whole = predict(what.plan, what.profile, what.cluster);
  CHECK(read.step == whole.step);
  CHECK(read.busy == whole.busy);
  CHECK(read.memory_limits == whole.memory_limits);
  // Few enough microbatches to read them all.
  what.plan.batch = {64 * 5, 64, 5, 0};
  const Compiled small = compile_to_read(what.plan, what.profile, what.cluster);
  CHECK(small.program.devices == 128);
  CHECK(small.stand_ins.empty());
}
