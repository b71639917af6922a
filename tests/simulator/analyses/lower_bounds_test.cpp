// Lower bounds: never above the step, and equal to it where nothing better is possible.

#include "simulator/analyses/lower_bounds.hpp"

#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

LowerBounds bounds_of(const char* name, const ScheduleShape& shape, const ChunkCosts& chunk,
                      Duration transfer = 0ns) {
  const Program program = lower(find_schedule(name).generate(shape));
  return lower_bounds(program, uniform(program, chunk, transfer));
}

}  // namespace

TEST_CASE("no bound is ever above the simulated step") {
  Random random(31);
  for (int round = 0; round < 400; ++round) {
    const auto [program, costs] = round % 2 == 0 ? plain_random_case(random) : random_case(random);
    const Duration step = step_time(simulate(program, costs));
    const LowerBounds bounds = lower_bounds(program, costs);
    CAPTURE(round, step.count());
    REQUIRE(bounds.load <= bounds.device);
    REQUIRE(bounds.path <= step);
    REQUIRE(bounds.device <= step);
    REQUIRE(bounds.link <= step);
    REQUIRE(bounds.window <= step);
  }
}

TEST_CASE("no bound is above the step of any schedule of the table", "[seconds]") {
  const ScheduleKind& kind = GENERATE(from_range(schedule_kinds));
  Random random(32);
  for (const ScheduleShape& shape : legal_shapes(kind, 4)) {
    CAPTURE(kind.name, shape.devices, shape.microbatches, shape.virtual_stages);
    const Program program = lower(kind.generate(shape));
    const Costs costs = random_costs(random, program);
    CHECK(lower_bounds(program, costs).best() <= step_time(simulate(program, costs)));
  }
}

TEST_CASE("head, load and tail of a device: (m + p - 1)(f + b) for equal stages") {
  for (const Shape& shape : plain_shapes()) {
    const auto [p, m] = shape;
    CAPTURE(p, m);
    const ScheduleShape of{.devices = p, .microbatches = m};
    for (const char* name : {"gpipe", "1f1b"}) {
      const LowerBounds bounds = bounds_of(name, of, chunk_costs(10ms, 20ms));
      CHECK(bounds.load == m * 30ms);
      CHECK(bounds.path == p * 30ms);
      CHECK(bounds.device == (m + p - 1) * 30ms);
    }
  }
}

TEST_CASE("weight gradients fill the drain: a zero-bubble step cannot be shorter") {
  // f = i = w: the last device cannot begin before p - 1 forwards have passed, and then works all
  // the time.
  for (const int p : {2, 4, 8}) {
    const ScheduleShape shape{.devices = p, .microbatches = 2 * p};
    const LowerBounds bounds = bounds_of("zb-h2", shape, split_costs(10ms, 10ms, 10ms));
    CHECK(bounds.device == 2 * p * 30ms + (p - 1) * 10ms);
  }
}

TEST_CASE("one microbatch alone takes its path") {
  // Device 0: 10 + 20; two edges of 3 there and back; devices 1 and 2 the same.
  const LowerBounds bounds =
      bounds_of("1f1b", {.devices = 3, .microbatches = 1}, chunk_costs(10ms, 20ms), 3ms);
  CHECK(bounds.path == 3 * 30ms + 4 * 3ms);
  CHECK(bounds.best() == bounds.path);
}

TEST_CASE("too little in flight for the latency: m round trips divided by K") {
  const int p = 8, m = 32;
  const Duration c = 5ms;
  const LowerBounds bounds =
      bounds_of("1f1b", {.devices = p, .microbatches = m}, chunk_costs(10ms, 20ms), c);
  // Device r has k = p - r in flight, each for k (f + b) + 2 (k - 1) c; r stages and edges come
  // before, and follow.
  Duration longest = 0ns;
  for (int r = 0; r < p; ++r) {
    const int k = p - r;
    const Duration trips = m * (k * 30ms + 2 * (k - 1) * c);
    longest = std::max<Duration>(longest, (trips + Duration{k - 1}) / k + r * (30ms + 2 * c));
  }
  CHECK(bounds.window == longest);
  CHECK(bounds.window > bounds.device);
}

TEST_CASE("a slow link: its messages one after the other, what comes before and what follows") {
  const Program program = lower(gpipe({.devices = 2, .microbatches = 4}));
  Costs costs = uniform(program, chunk_costs(10ms, 20ms));
  costs.channels[0] = {.latency = 2ms, .occupancy = 100ms};
  // F0, four messages, the last one's latency, F1, B1, and B0 after it.
  CHECK(lower_bounds(program, costs).link == 10ms + 400ms + 2ms + 10ms + 20ms + 20ms);
  CHECK(step_time(simulate(program, costs)) >= 462ms);
}
