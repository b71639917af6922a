#include "simulator/analyses/attribution.hpp"

#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

namespace stagecraft {
namespace {

using namespace tests;

TEST_CASE("1F1B with equal stages: all that is not work is filling and draining") {
  for (const Shape shape : {Shape{1, 4}, Shape{4, 2}, Shape{4, 8}, Shape{7, 30}}) {
    const Program program =
        lower(one_f_one_b({.devices = shape.devices, .microbatches = shape.microbatches}));
    const Costs costs = uniform(program, chunk_costs(10ms, 20ms));
    for (const Attribution& device : attribution(program, costs)) {
      CHECK(device == Attribution{.compute = shape.microbatches * 30ms,
                                  .fill_drain = (shape.devices - 1) * 30ms});
    }
  }
}

TEST_CASE("Latency that 1F1B does not hide is 2c(N - N div p), N = m + p - 2, on every device") {
  for (const Shape shape : {Shape{2, 5}, Shape{4, 8}, Shape{8, 32}}) {
    const int p = shape.devices;
    const int n = shape.microbatches + p - 2;
    const Program program = lower(one_f_one_b({.devices = p, .microbatches = shape.microbatches}));
    const Costs costs = uniform(program, chunk_costs(10ms, 20ms), 1ms);
    for (const Attribution& device : attribution(program, costs)) {
      CHECK(device.exposed_communication == 2 * 1ms * (n - n / p));
      CHECK(device.fill_drain == (p - 1) * 30ms);
      CHECK(device.imbalance == Duration{0});
    }
  }
}

TEST_CASE("A slow last stage makes the others wait: that is imbalance") {
  // Two devices, 30 ms and 60 ms per microbatch, m = 8: the step is 30 + 8 * 60 ms. Equal devices
  // of 45 ms would fill and drain for 45 ms; the slow one of these waits for 30 ms only.
  const Program program = lower(one_f_one_b({.devices = 2, .microbatches = 8}));
  Costs costs = uniform(program, chunk_costs(10ms, 20ms));
  costs.chunks[1] = chunk_costs(20ms, 40ms);
  const std::vector<Attribution> devices = attribution(program, costs);
  CHECK(devices[0] ==
        Attribution{.compute = 240ms, .fill_drain = 45ms, .imbalance = (510 - 240 - 45) * 1ms});
  CHECK(devices[1] == Attribution{.compute = 480ms, .fill_drain = 30ms});
}

TEST_CASE("Devices with unequal numbers of stages are unbalanced though all stages are equal") {
  // Device 0 has stages 0 and 2, device 1 stage 1; one microbatch passes all in 3 * 12 ms, one
  // after the other. Equal devices (an instruction of device 1 takes twice as long as one of device
  // 0) would both be idle for half of that.
  const Schedule schedule{
      .name = "unequal",
      .stages = 3,
      .microbatches = 1,
      .device_of_stage = {0, 1, 0},
      .devices = {
          {{Op::forward, 0, 0}, {Op::forward, 2, 0}, {Op::backward, 2, 0}, {Op::backward, 0, 0}},
          {{Op::forward, 1, 0}, {Op::backward, 1, 0}}}};
  const Program program = lower(schedule);
  const Costs costs = uniform(program, chunk_costs(4ms, 8ms));
  const std::vector<Attribution> devices = attribution(program, costs);
  CHECK(devices[0] == Attribution{.compute = 24ms, .fill_drain = 12ms});
  CHECK(devices[1] == Attribution{.compute = 12ms, .fill_drain = 18ms, .imbalance = 6ms});
}

TEST_CASE("Recomputation, updates and reductions have places of their own") {
  const Schedule schedule = one_f_one_b({.devices = 2, .microbatches = 4});
  const Program program = lower(
      schedule,
      {.replicas = {{0, 1}, {2, 3}}, .rows = 2, .recompute = {Recompute::full, Recompute::full}});
  Costs costs = uniform(program, chunk_costs(10ms, 20ms));
  for (ChunkCosts& chunk : costs.chunks) chunk.update = 7ms;
  costs.groups.assign(costs.groups.size(), 5ms);
  for (const Attribution& device : attribution(program, costs)) {
    CHECK(device.compute == 4 * 30ms);
    CHECK(device.recompute == 4 * 10ms);
    CHECK(device.optimizer == 7ms);
    CHECK(device.exposed_communication == 5ms);
    CHECK(device.imbalance == Duration{0});
  }
}

TEST_CASE("Attribution adds up to the step and is nowhere negative, whatever the program") {
  Random random(21);
  for (int i = 0; i < 150; ++i) {
    const auto [program, costs] = random_case(random);
    const Duration step = step_time(simulate(program, costs));
    for (const Attribution& device : attribution(program, costs)) {
      REQUIRE(total(device) == step);
      for (const Duration part :
           {device.compute, device.recompute, device.optimizer, device.fill_drain, device.imbalance,
            device.exposed_communication, device.waiting_memory}) {
        REQUIRE(part >= Duration{0});
      }
    }
  }
}

TEST_CASE("Under the clock's own conditions attribution is the clock's") {
  Random random(22);
  for (int i = 0; i < 30; ++i) {
    const auto [program, costs] = random_case(random);
    REQUIRE(attribution(program, costs, {}) == attribution(program, costs));
  }
}

TEST_CASE("A forward that waits until a result is sent waits for memory") {
  // Device 0 has room for two results, and keeps each for the 50 ms it takes to send: the third
  // forward waits from 20 to 60 ms. F0 F1 .. F2 | F F F on device 1, then its backwards 10 ms each:
  // the last message arrives at 160 ms, the last backward of device 0 ends 50 ms later.
  LowerOptions options;
  options.memory = {{{.output = 100}}, {{.output = 0}}};
  const Program program = lower(gpipe({.devices = 2, .microbatches = 3}), options);
  Costs costs = uniform(program, chunk_costs(10ms, 10ms));
  costs.channels[0].occupancy = 50ms;
  const std::vector<Attribution> devices =
      attribution(program, costs, {.memory_limits = {200, 1000}});
  for (const Attribution& device : devices) {
    CHECK(total(device) == 210ms);
    CHECK(device.compute == 60ms);
    CHECK(device.fill_drain == 20ms);
    CHECK(device.imbalance == Duration{0});
  }
  CHECK(devices[0].waiting_memory == 40ms);
  CHECK(devices[1].waiting_memory == Duration{0});
  CHECK(devices[0].exposed_communication == 90ms);  // of 130 ms, the first 40 waited for memory
  CHECK(devices[1].exposed_communication == 130ms);
}

TEST_CASE("Attribution adds up to the step under all conditions") {
  Random random(30);
  int waited = 0;
  for (int i = 0; i < 60; ++i) {
    const auto [program, costs] = random_case(random);
    Environment environment;
    environment.slow_down = {0, random.below(200), random.below(200), random.below(200)};
    environment.stops = {{0, Duration{random.below(50)}, Duration{random.below(50)}}};
    for (const MemoryPeak& peak : memory_peaks(simulate(program, costs))) {
      environment.memory_limits.push_back(peak.bytes * random.between(90, 100) / 100);
    }
    try {
      const Duration step = step_time(simulate_events(program, costs, environment));
      for (const Attribution& device : attribution(program, costs, environment)) {
        REQUIRE(total(device) == step);
        for (const Duration part :
             {device.compute, device.recompute, device.optimizer, device.fill_drain,
              device.imbalance, device.exposed_communication, device.waiting_memory}) {
          REQUIRE(part >= Duration{0});
        }
        waited += device.waiting_memory > Duration{0} ? 1 : 0;
      }
    } catch (const Error& error) {
      REQUIRE(error.kind() == ErrorKind::check);  // too little memory for this order
    }
  }
  CHECK(waited > 0);
}

}  // namespace
}  // namespace stagecraft
