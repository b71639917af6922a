// Stages that only pass on what they get: no weights, nothing kept, and every message all the same.

#include <algorithm>

#include "simulator/checks/check.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/check_reports.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

bool is_passing(const LowerOptions& options, int stage) {
  return options.passes_on[index(stage)];
}

/// Any stages between the first and the last of each pipe.
LowerOptions with_passing_stages(Random& random, const Schedule& schedule) {
  LowerOptions options = random_options(random, schedule);
  const int stages = stages_per_pipe(schedule);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const int place = stage % stages;
    const bool is_inside = place > 0 && place + 1 < stages;
    options.passes_on.push_back(stage == place ? is_inside && random.below(10) < 6
                                               : options.passes_on[index(place)]);
    if (!options.passes_on.back()) continue;
    for (ChunkMemory& memory : options.memory[index(stage)]) {
      memory = {.input = memory.input, .output = memory.output, .keeps_input = false};
    }
  }
  return options;
}

std::ptrdiff_t count(const Program& program, int stage, std::initializer_list<Op> ops) {
  return std::ranges::count_if(program.work, [&](const Work& work) {
    return work.instruction.stage == stage && std::ranges::count(ops, work.instruction.op) > 0;
  });
}

bool places_recomputation(const Schedule& schedule) {
  return std::ranges::any_of(schedule.devices, [](const std::vector<Instruction>& order) {
    return std::ranges::count(order, Op::recompute, &Instruction::op) > 0;
  });
}

constexpr auto of_weights = {Op::update, Op::reduce_gradient, Op::reduce_scatter, Op::reduce_tied,
                             Op::gather_parameters};
constexpr auto passes = {Op::forward, Op::backward, Op::backward_input, Op::backward_weight};
constexpr auto messages = {Op::send_activation, Op::receive_activation, Op::send_gradient,
                           Op::receive_gradient};

/// Three stages on devices of their own, two microbatches; the second stage passes on.
Program chain_of_three(const LowerOptions& options) {
  return lower(one_f_one_b({.devices = 3, .microbatches = 2}), options);
}

}  // namespace

TEST_CASE("a stage that passes on has every pass and message, and nothing about weights",
          "[seconds]") {
  Random random(31);
  int passing = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const Schedule schedule = random_schedule(random, round % 3 == 0 ? RandomKinds{} : all_kinds);
    const LowerOptions options = with_passing_stages(random, schedule);
    LowerOptions whole = options;
    whole.passes_on.clear();
    const Program program = lower(schedule, options), other = lower(schedule, whole);
    const CheckReport report = check(program);
    INFO(all_messages(report));
    CHECK(report.safe());
    for (int stage = 0; stage < schedule.stages; ++stage) {
      CHECK(count(program, stage, passes) == count(other, stage, passes));
      CHECK(count(program, stage, messages) == count(other, stage, messages));
      if (!is_passing(options, stage)) continue;
      ++passing;
      CHECK(count(program, stage, of_weights) == 0);
      // A schedule may place recomputation itself: of nothing.
      if (!places_recomputation(schedule)) CHECK(count(program, stage, {Op::recompute}) == 0);
    }
  }
  CHECK(passing > 100);
}

TEST_CASE("what comes in goes out, and is held no longer") {
  const Bytes bytes = 100;
  LowerOptions options;
  options.passes_on = {false, true, false};
  options.boundary = {bytes, bytes, 0};
  const ChunkMemory ends{.parameters = 10, .saved = 7, .input = bytes, .output = bytes};
  options.memory = {{ends}, {{.input = bytes, .output = bytes, .keeps_input = false}}, {ends}};
  const Program program = chain_of_three(options);
  REQUIRE(check(program).safe());
  Costs costs{.chunks = {{.forward = Duration{5}, .backward = Duration{9}, .update = Duration{1}},
                         {},
                         {.forward = Duration{5}, .backward = Duration{9}, .update = Duration{1}}},
              .channels = std::vector<ChannelCosts>(program.channels.size(),
                                                    {.latency = Duration{2}, .occupancy = {}}),
              .groups = {}};
  const Timeline timeline = simulate(program, costs);
  // F0.0, two hops, both microbatches on the last device, two hops, B0.1, U0.1.
  CHECK(step_time(timeline) == Duration{5 + 4 + 2 * (5 + 9) + 4 + 9 + 1});
  const auto peaks = memory_peaks(timeline);
  CHECK(peaks[1].use[static_cast<std::size_t>(MemoryCategory::parameters)] == 0);
  for (const Buffer& buffer : program.buffers) {
    if (program.chunks[index(buffer.chunk)].stage != 1) continue;
    CHECK(buffer.bytes == bytes);
    CHECK(buffer.role != BufferRole::saved);
  }
}

TEST_CASE("check: a stage that passes on has nothing to update") {
  LowerOptions options;
  options.passes_on = {false, true, false};
  Program program = chain_of_three(options);
  program.chunks[1].passes_on = false;
  CHECK(first_finding(program).find("stage 1 (replica 0 on device 1) are never updated") !=
        std::string::npos);
  Program updated = chain_of_three({});
  REQUIRE(check(updated).safe());
  updated.chunks[1].passes_on = true;
  CHECK(first_finding(updated).find("which only passes on, are updated 1 time") !=
        std::string::npos);
}
