// Long runs and many replicas at the price of short ones and one: equal to the whole run, exactly.

#include "simulator/engines/steady.hpp"

#include "simulator/engines/fold.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/steady_cases.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Duration full_run(const Program& program, const Costs& costs, int iterations) {
  return step_time(simulate(program, costs, {.iterations = iterations, .barrier = false}));
}

}  // namespace

TEST_CASE("iterations repeat: the steady state gives the time of any number of them", "[seconds]") {
  each_steady_case(41,
                   [](const Program& program, const Costs& costs, const SteadyIterations& steady) {
                     for (const int iterations : {1, 2, 3, 7, 20, 41}) {
                       CAPTURE(iterations);
                       REQUIRE(steady.step(iterations) == full_run(program, costs, iterations));
                     }
                   });
}

TEST_CASE("without a barrier ZB-V works all the time, and 1F1B gains nothing") {
  const int p = 4, m = 8;
  const auto per_iteration = [&](const char* name, int v) {
    const Program program =
        lower(find_schedule(name).generate({.devices = p, .microbatches = m, .virtual_stages = v}));
    const auto steady =
        steady_iterations(program, uniform(program, split_costs(20ms, 20ms, 20ms, v)));
    REQUIRE(steady.has_value());
    return steady->time / steady->period;
  };
  CHECK(per_iteration("zb-v", 2) == m * 60ms);
  CHECK(per_iteration("zb-h2", 1) == m * 60ms);
  CHECK(per_iteration("1f1b", 1) == (m + p - 1) * 60ms);
}

TEST_CASE("many microbatches take as long as a few, and the rest in periods", "[seconds]") {
  struct Row {
    const char* name;
    int virtual_stages;
  };
  for (const Row& row : {Row{"1f1b", 1}, Row{"dapple-pb", 1}, Row{"zb-h1", 1}, Row{"zb-h2", 1},
                         Row{"interleaved", 2}, Row{"zb-v", 2}, Row{"gpipe", 1}}) {
    const ScheduleKind& kind = find_schedule(row.name);
    for (const int p : {2, 3, 4}) {
      const int m = 100 * p;
      const ScheduleShape shape{
          .devices = p, .microbatches = m, .virtual_stages = row.virtual_stages};
      const Program program = lower(kind.generate(shape));
      Random random(42);
      for (int round = 0; round < 3; ++round) {
        CAPTURE(row.name, p, round);
        const Costs costs = round == 0 ? uniform(program, split_costs(20ms, 20ms, 20ms), 3ms)
                                       : random_costs(random, program);
        const LongStep found = long_step(kind, shape, costs);
        CHECK(found.step == step_time(simulate(program, costs)));
        if (round == 0 && std::string(row.name) != "gpipe") CHECK(found.microbatches_run < m);
      }
    }
  }
}

TEST_CASE("identical replicas fold into one") {
  Random random(43);
  int folds = 0;
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    const Schedule schedule = random_schedule(random);
    LowerOptions options = random_options(random, schedule);
    const int replicas = random.between(2, 4);
    options.replica_policy = ReplicaPolicy::split;
    options.rows = 2 * replicas;
    for (int s = 0; s < schedule.stages; ++s) {
      options.replicas[index(s)].clear();
      for (int r = 0; r < replicas; ++r) {
        options.replicas[index(s)].push_back(schedule.device_of_stage[index(s)] * replicas + r);
      }
      options.memory[index(s)].assign(index(replicas), options.memory[index(s)].front());
    }
    const Program program = lower(schedule, options);
    Costs costs = random_costs(random, program);
    // Equal costs by stage and by edge.
    for (std::size_t i = 0; i < program.chunks.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (program.chunks[j].stage == program.chunks[i].stage) costs.chunks[i] = costs.chunks[j];
      }
    }
    for (std::size_t i = 0; i < program.channels.size(); ++i) costs.channels[i] = costs.channels[0];

    const auto folded = fold(program, costs);
    REQUIRE(folded.has_value());
    ++folds;
    CHECK(folded->program.devices * replicas == program.devices);
    const Timeline whole = simulate(program, costs);
    const Timeline one = simulate(folded->program, folded->costs);
    CHECK(step_time(one) == step_time(whole));
    const std::vector<Duration> spans = span_times(whole), folded_spans = span_times(one);
    for (int d = 0; d < program.devices; ++d) {
      CHECK(spans[index(d)] == folded_spans[index(folded->device[index(d)])]);
    }

    Costs uneven = costs;
    uneven.chunks.back().forward += 1ns;
    CHECK_FALSE(fold(program, uneven).has_value());
  }
  CHECK(folds == 100);
}

TEST_CASE("replicas that are not alike do not fold") {
  LowerOptions options;
  options.rows = 6;
  options.replicas = {{0, 1}, {2, 3, 4}};  // two replicas hand slices to three
  const Program program = lower(gpipe({.devices = 2, .microbatches = 2}), options);
  CHECK_FALSE(fold(program, uniform(program, chunk_costs(1ms, 2ms))).has_value());
  options.replicas = {{0, 1}, {2, 3}};
  options.replica_policy = ReplicaPolicy::round_robin;  // each has its own microbatches
  const Program turns = lower(gpipe({.devices = 2, .microbatches = 2}), options);
  CHECK_FALSE(fold(turns, uniform(turns, chunk_costs(1ms, 2ms))).has_value());
}
