#include "simulator/events.hpp"

#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

constexpr Duration f = 10ms;
constexpr Duration b = 20ms;

Schedule one_f_one_b_of(int devices, int microbatches) {
  return one_f_one_b({.devices = devices, .microbatches = microbatches});
}

Duration step_of(const Schedule& schedule, const Environment& environment, const ChunkCosts& chunk,
                 Duration transfer = Duration{0}) {
  const Program program = lower(schedule);
  return step_time(simulate_events(program, uniform(program, chunk, transfer), environment));
}

}  // namespace

TEST_CASE("events: without contention, random programs run as simulate says, memory included") {
  Random random(11);
  int same = 0;
  for (int round = 0; round < 2'000; ++round) {
    const Schedule schedule = random_schedule(random);
    const Program program = lower(schedule, random_options(random, schedule));
    const Costs costs = random_costs(random, program);
    if (simulate_events(program, costs, {}) == simulate(program, costs)) ++same;
  }
  CHECK(same == 2'000);
}

TEST_CASE("events: 10'000 random programs without memory run as simulate says") {
  Random random(10);
  int same = 0;
  for (int round = 0; round < 10'000; ++round) {
    const Program program = lower(random_schedule(random));
    const Costs costs = random_costs(random, program);
    if (simulate_events(program, costs, {}) == simulate(program, costs)) ++same;
  }
  CHECK(same == 10'000);
}

TEST_CASE("events: iterations follow each other as simulate says, with and without a barrier") {
  Random random(12);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const Schedule schedule = random_schedule(random);
    const Program program = lower(schedule, random_options(random, schedule));
    const Costs costs = random_costs(random, program);
    for (const bool barrier : {true, false}) {
      const SimulateOptions options{.iterations = 3, .barrier = barrier};
      CHECK(simulate_events(program, costs, {}, options) == simulate(program, costs, options));
    }
  }
}

TEST_CASE("events: a blocking exchange of pairs costs 1F1B c(2(m + p) - 5); two devices c(m + 1)") {
  for (const Shape& shape : plain_shapes()) {
    const auto [p, m] = shape;
    if (p < 2 || m < 2) continue;
    for (const Duration c : {1ms, 3ms, 10ms}) {
      CAPTURE(p, m, c.count());
      const Duration step = step_of(one_f_one_b_of(p, m), {.policy = LinkPolicy::blocking_pair},
                                    chunk_costs(f, b), c);
      CHECK(step - (m + p - 1) * (f + b) == (p == 2 ? m + 1 : 2 * (m + p) - 5) * c);
    }
  }
}
