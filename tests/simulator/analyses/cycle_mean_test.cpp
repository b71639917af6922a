// The slowest cycle of an iteration against iterations that were run: equal, exactly.

#include "profiles/error.hpp"
#include "simulator/analyses/lower_bounds.hpp"
#include "simulator/engines/steady.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/steady_cases.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// The same quotient of whole numbers, which no iteration on its own undercuts; and the cycle
/// accounts for all of it.
void require_same(const CycleMean& mean, const SteadyIterations& steady) {
  REQUIRE(mean.time * steady.period == steady.time * mean.iterations);
  REQUIRE(steady.ends.front() * mean.iterations >= mean.time);
  Duration time{0};
  for (const CriticalRun& run : mean.runs) time += run.time;
  REQUIRE(time == mean.time);
}

/// Where devices run ever farther ahead of others, the last end still moves on by the mean.
void require_same_growth(const CycleMean& mean, const Program& program, const Costs& costs) {
  const auto step = [&](int iterations) {
    return step_time(simulate(program, costs, {.iterations = iterations, .barrier = false}));
  };
  const int some = 10 * mean.iterations;
  REQUIRE(step(3 * some) - step(2 * some) == 10 * mean.time);
}

}  // namespace

TEST_CASE("the cycle mean of every schedule of the table is its steady step", "[seconds]") {
  const ScheduleKind& kind = GENERATE(from_range(schedule_kinds));
  Random random(51);
  for (const ScheduleShape& shape : legal_shapes(kind, 3)) {
    CAPTURE(kind.name, shape.devices, shape.microbatches, shape.virtual_stages);
    const Program program = lower(kind.generate(shape));
    for (const Costs& costs :
         {uniform(program, split_costs(20ms, 20ms, 20ms), 3ms), random_costs(random, program)}) {
      const CycleMean mean = cycle_mean(program, costs);
      if (const auto steady = steady_iterations(program, costs)) {
        require_same(mean, *steady);
      } else {
        require_same_growth(mean, program, costs);
      }
    }
  }
}

TEST_CASE("the cycle mean of random programs is their steady step") {
  each_steady_case(52,
                   [](const Program& program, const Costs& costs, const SteadyIterations& steady) {
                     require_same(cycle_mean(program, costs), steady);
                   });
}

TEST_CASE("the cycle of 1F1B is the chain of one microbatch and all work of the last device") {
  const int p = 4, m = 8;
  const Program program = lower(one_f_one_b({.devices = p, .microbatches = m}));
  const CycleMean mean = cycle_mean(program, uniform(program, chunk_costs(10ms, 20ms)));
  CHECK(mean.time == mean.iterations * (m + p - 1) * 30ms);
  CHECK(mean.iterations == 1);
}

TEST_CASE("without costs there is no cycle that holds iterations up") {
  const Program program = lower(gpipe({.devices = 2, .microbatches = 2}));
  const CycleMean mean = cycle_mean(program, uniform(program, {}));
  CHECK(mean.time == 0ms);
  CHECK(mean.runs.empty());
}
