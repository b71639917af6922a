// Timelines of the CUDA backend, made of events around graphs, as what reads timelines sees them:
// files, compare and calibrate.

#include <numeric>

#include "planner/calibration/timeline_costs.hpp"
#include "profiles/json.hpp"
#include "simulator/analyses/comparison.hpp"
#include "simulator/simulate.hpp"
#include "simulator/views/trace.hpp"
#include "tests/cuda/stand_in/training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

constexpr int traced_steps = 4;

/// Of a run on so many GPUs, with its last steps as iterations.
struct Measured {
  Prepared prepared;
  RunResult run;
};

Measured measure(const Setting& setting, GraphUse graphs, int gpus) {
  Prepared prepared = prepare(setting);
  RunResult run = run_on_stand_in(
      prepared, {.steps = 6, .cuda = {.graphs = graphs}, .traced_steps = traced_steps}, gpus);
  return {std::move(prepared), std::move(run)};
}

/// Of the stage's layers, what the entry's costs add up to.
Duration sum_of(const ProfileEntry& entry, const LayerRange& layers, Duration LayerCost::*pass) {
  Duration sum{0};
  for (int layer = layers.first; layer < layers.end; ++layer) {
    sum += entry.layers[static_cast<std::size_t>(layer)].*pass;
  }
  return sum;
}

std::vector<Setting> measured_settings() {
  return {{.schedule = "1f1b", .devices = 2},
          {.schedule = "gpipe", .devices = 2},
          {.schedule = "zb-h1", .devices = 2},
          {.schedule = "interleaved", .devices = 2, .virtual_stages = 2},
          {.schedule = "1f1b", .devices = 2, .recompute = Recompute::full},
          {.schedule = "1f1b", .devices = 2, .replicas = {2, 1}}};
}

void check_timeline(const Setting& setting, GraphUse graphs, int gpus) {
  INFO(describe(setting) << (graphs == GraphUse::on ? ", graphs" : "") << ", GPUs " << gpus);
  stand_in::set_up({.devices = gpus});
  const auto [prepared, run] = measure(setting, graphs, gpus);
  require_no_complaints();
  if (graphs == GraphUse::on) CHECK(stand_in::counts().graph_launches > 0);
  const Program& program = prepared.compiled.program;

  // A file keeps it to the nanosecond.
  CHECK(read_trace(Json::parse(write_trace({run.traced, {}}), "run.trace.json")).timeline ==
        run.traced);

  const Timeline predicted = simulate(program, prepared.compiled.costs);
  const Comparison comparison = compare(predicted, median_iteration(run.traced));
  CHECK(comparison.measured > Duration{0});
  const Duration shares =
      std::accumulate(comparison.shares.begin(), comparison.shares.end(), Duration{0},
                      [](Duration sum, const Share& share) { return sum + share.extra; });
  CHECK(shares == comparison.measured - comparison.predicted);

  const std::vector<MeasuredStep> steps = measured_steps(program, run.traced);
  REQUIRE(steps.size() == traced_steps);
  for (const MeasuredStep& step : steps) {
    for (std::size_t i = 0; i < step.work.size(); ++i) {
      INFO(to_string(program.work[i].instruction));
      const MeasuredWork& work = step.work[i];
      CHECK(work.end >= work.start);
      CHECK(work.end >= work.ready);
      if (!is_compute(program.work[i].instruction.op)) continue;
      CHECK(work.overhead() >= Duration{0});
      // On the stand-in a kernel takes a microsecond and more.
      CHECK(work.end - work.start > Duration{1000});
    }
  }

  const Cluster cluster = parse_cluster(prepared.plan.cluster);
  const TimelineCosts costs =
      costs_from_timeline(prepared.plan, prepared.compiled, prepared.profile, cluster, steps);
  CHECK_NOTHROW(validate(costs.profile));
  CHECK(predict(prepared.plan, costs.profile, costs.cluster).step > Duration{0});
  // What a stage's forward took is what its layers add up to.
  if (setting.replicas.empty() && setting.recompute == Recompute::none) {
    for (const InstructionTimes& times : costs.instructions) {
      if (times.op != Op::forward) continue;
      const LayerRange layers = prepared.plan.stages[static_cast<std::size_t>(times.stage)].layers;
      CHECK(sum_of(costs.profile.entries.front(), layers, &LayerCost::forward) == times.measured);
    }
  }
}

}  // namespace

TEST_CASE("compare and calibrate read a GPU's timeline as they read a CPU's", "[seconds]") {
  const std::vector<Setting> settings = measured_settings();
  for (std::size_t i = 0; i < settings.size(); ++i) {
    check_timeline(settings[i], i % 2 == 0 ? GraphUse::on : GraphUse::off,
                   1 + static_cast<int>(i / 2 % 2));
  }
}

TEST_CASE("so they do with graphs and without, on one GPU and on two", "[minutes]") {
  const Setting setting = GENERATE(from_range(measured_settings()));
  const GraphUse graphs = GENERATE(GraphUse::off, GraphUse::on);
  check_timeline(setting, graphs, GENERATE(1, 2));
}
