// Programs at full size without their arithmetic. How exact this is, is measured by the hidden
// cases: tests_executor '[timing]'.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "executor/driver/machinery.hpp"
#include "simulator/lowering/lower.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/simulate.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;
using namespace std::chrono_literals;

namespace {

Compiled compiled_of(std::string_view schedule, const ScheduleShape& shape, const ChunkCosts& costs,
                     Duration transfer, const LowerOptions& options = {}) {
  Compiled compiled{.schedule = find_schedule(schedule).generate(shape)};
  compiled.program = lower(compiled.schedule, options);
  compiled.costs = uniform(compiled.program, costs, transfer);
  return compiled;
}

RunResult sleep(const Compiled& compiled, int steps) {
  return execute({}, {}, compiled, {}, {.steps = steps, .backend = BackendKind::sleep});
}

Duration predicted(const Compiled& compiled) {
  return step_time(simulate(compiled.program, compiled.costs));
}

Duration best(const RunResult& result) {
  return std::ranges::min(result.step_times);
}

/// Never less than predicted; how much more depends on how busy the machine is, so only gross
/// mistakes fail.
void check_loosely(const Compiled& compiled) {
  INFO(compiled.schedule.name);
  const Duration expected = predicted(compiled);
  Duration measured = best(sleep(compiled, 3));
  for (int attempt = 0; attempt < 10 && measured > 1.5 * expected; ++attempt) {
    measured = std::min(measured, best(sleep(compiled, 3)));
  }
  CHECK(measured >= expected);
  CHECK(measured <= 1.5 * expected);
}

constexpr ChunkCosts milliseconds{
    .forward = 5ms, .backward = 10ms, .recompute = 5ms, .update = 2ms};

}  // namespace

TEST_CASE("sleeping takes as long as predicted") {
  check_loosely(compiled_of("gpipe", {.devices = 2, .microbatches = 4}, milliseconds, 1ms));
  check_loosely(compiled_of("1f1b", {.devices = 4, .microbatches = 6}, milliseconds, 0ms));
  check_loosely(compiled_of("interleaved", {.devices = 2, .microbatches = 4, .virtual_stages = 2},
                            milliseconds, 2ms));
}

TEST_CASE("messages that keep their channel busy come one after the other") {
  Compiled compiled = compiled_of("gpipe", {.devices = 2, .microbatches = 5},
                                  {.forward = 1ms, .backward = 1ms}, 1ms);
  for (ChannelCosts& channel : compiled.costs.channels) channel.occupancy = 8ms;
  check_loosely(compiled);
}

TEST_CASE("reductions go on beside the compute of other stages") {
  Compiled compiled =
      compiled_of("interleaved", {.devices = 2, .microbatches = 4, .virtual_stages = 2},
                  milliseconds, 0ms, {.replicas = {{0, 1}, {2, 3}, {0, 1}, {2, 3}}, .rows = 2});
  for (Duration& group : compiled.costs.groups) group = 20ms;
  check_loosely(compiled);
  const RunResult result = sleep(compiled, 1);
  CHECK(result.losses.empty());
  CHECK(result.parameters_hash.empty());
  CHECK(result.timeline.spans.size() == compiled.program.work.size());
}

TEST_CASE("what a sleeping rank would hold is the program's memory") {
  const ChunkMemory memory{
      .parameters = 100, .gradients = 100, .optimizer = 200, .saved = 50, .input = 7};
  const Compiled compiled =
      compiled_of("gpipe", {.devices = 1, .microbatches = 3}, {.forward = 1ms, .backward = 1ms},
                  0ms, {.memory = {{memory}}});
  CHECK(sleep(compiled, 2).peak_memory == std::vector<Bytes>{400 + 3 * (50 + 7)});
}

TEST_CASE("fused pairs, loans between partners and shards sleep as long as predicted") {
  ChunkCosts costs = milliseconds;
  costs.backward_input = costs.backward_weight = 5ms;
  costs.fused = 12ms;
  check_loosely(
      compiled_of("dualpipev", {.devices = 2, .microbatches = 4, .virtual_stages = 2}, costs, 1ms));
  check_loosely(compiled_of("bpipe", {.devices = 4, .microbatches = 6}, costs, 3ms));
  LowerOptions sharded{.replicas = {{0, 1}, {2, 3}}, .rows = 2};
  sharded.sharding = Sharding::zero1;
  Compiled compiled =
      compiled_of("pipedream-2bw", {.devices = 2, .microbatches = 6}, costs, 1ms, sharded);
  for (Duration& group : compiled.costs.groups) group = 8ms;
  check_loosely(compiled);
}

TEST_CASE("the step is within 2 % of the prediction, half of all times", "[.timing]") {
  std::cout << "schedule                    p   predicted    best         median\n";
  std::vector<double> errors;
  for (const ScheduleKind& kind : schedule_kinds) {
    const int least = fewest_virtual_stages(kind.placement);
    const int virtual_stages = kind.placement == StagePlacement::loop ? 2 : least;
    for (const int devices : {2, 4, 8}) {
      const ChunkCosts costs{.forward = 7ms,
                             .backward = 16ms,
                             .backward_input = 9ms,
                             .backward_weight = 7ms,
                             .recompute = 7ms,
                             .update = 5ms};
      const Compiled compiled = compiled_of(
          kind.name,
          {.devices = devices, .microbatches = 2 * devices, .virtual_stages = virtual_stages},
          costs, 1ms);
      RunResult result = sleep(compiled, 5);
      std::ranges::sort(result.step_times);
      const Duration expected = predicted(compiled);
      const auto error = [&](Duration time) {
        return 100 * (seconds(time) / seconds(expected) - 1);
      };
      errors.push_back(error(result.step_times[2]));
      std::cout << fmt::format("{:26} {:2}   {:9}    +{:.2f} %      +{:.2f} %\n", kind.name,
                               devices, format_duration(expected), error(result.step_times.front()),
                               errors.back());
    }
  }
  std::ranges::sort(errors);
  std::cout << fmt::format("median of all +{:.2f} %, most +{:.2f} %\n", errors[errors.size() / 2],
                           errors.back());
  CHECK(errors[errors.size() / 2] < 2);
}
