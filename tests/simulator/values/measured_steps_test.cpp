#include "simulator/values/measured_steps.hpp"

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

struct Run {
  Program program;
  Timeline timeline;
};

Run run_of(const std::string& schedule, int iterations = 1, const LowerOptions& options = {}) {
  Run run;
  run.program = lower(find_schedule(schedule).generate({.devices = 2, .microbatches = 3}), options);
  run.timeline = simulate(run.program, uniform(run.program, split_costs(10ms, 12ms, 8ms), 1ms),
                          {.iterations = iterations});
  return run;
}

int work_of(const Program& program, int device, const Instruction& instruction) {
  for (const int i : program.order[index(device)])
    if (program.work[index(i)].instruction == instruction) return i;
  return -1;
}

}  // namespace

TEST_CASE("nothing lies between a simulated instruction and what it waited for",
          "[measured_steps]") {
  const ScheduleKind& kind = GENERATE(from_range(schedule_kinds));
  const auto schedule = generated(
      kind,
      {.devices = 2, .microbatches = 4, .virtual_stages = fewest_virtual_stages(kind.placement)});
  // A fused pair is one in a simulation, and two that follow each other in a run.
  if (!schedule || kind.name == "dualpipe" || kind.name == "dualpipev") return;
  INFO(kind.name);
  const Program program = lower(*schedule);
  const Timeline timeline = simulate(program, uniform(program, split_costs(10ms, 12ms, 8ms), 1ms));
  const std::vector<MeasuredStep> steps = measured_steps(program, timeline);
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].time == step_time(timeline));
  for (std::size_t i = 0; i < program.work.size(); ++i) {
    if (!is_compute(program.work[i].instruction.op)) continue;
    INFO(describe(program, static_cast<int>(i)));
    CHECK(steps[0].work[i].overhead() == Duration{0});
  }
}

TEST_CASE("what a device does between instructions belongs to the second", "[measured_steps]") {
  Run run = run_of("gpipe");
  // F0.1 of the first device begins 2 ms late, and all that it holds up comes later, too.
  for (Span& span : run.timeline.spans) {
    if (span.start >= 10ms && !(span.device == 1 && span.instruction.microbatch == 0)) {
      span.start += 2ms;
      span.end += 2ms;
    }
  }
  const MeasuredWork late = measured_steps(run.program, run.timeline)[0]
                                .work[index(work_of(run.program, 0, {Op::forward, 0, 1}))];
  CHECK(late.ready == 10ms);
  CHECK(late.overhead() == 2ms);
  CHECK(late.time() == 12ms);
}

TEST_CASE("a collective takes time from when its last member came", "[measured_steps]") {
  LowerOptions options;
  options.replicas = {{0, 1}, {2}};
  options.rows = 2;
  Run run = run_of("gpipe", 1, options);
  Duration end{0};
  for (Span& span : run.timeline.spans) {
    if (span.instruction.op != Op::reduce_gradient) continue;
    span.end = span.start + 5ms;
    // The first member waits for the second.
    if (span.device == 0) span.start -= 3ms;
    end = span.end;
  }
  const std::vector<MeasuredStep> steps = measured_steps(run.program, run.timeline);
  int collectives = 0;
  for (std::size_t i = 0; i < run.program.work.size(); ++i) {
    if (run.program.work[i].instruction.op != Op::reduce_gradient) continue;
    ++collectives;
    CHECK(steps[0].work[i].time() == 5ms);
    CHECK(steps[0].work[i].end == end);
  }
  CHECK(collectives == 2);
}

TEST_CASE("iterations are steps, and the one with the median time stands alone",
          "[measured_steps]") {
  Run run = run_of("1f1b", 3);
  // The first step takes 7 ms longer, the last 4 ms.
  for (Span& span : run.timeline.spans) {
    if (span.instruction != Instruction{Op::update, 0, 2}) continue;
    if (span.iteration == 0) span.end += 7ms;
    if (span.iteration == 2) span.end += 4ms;
  }
  const std::vector<MeasuredStep> steps = measured_steps(run.program, run.timeline);
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].time == steps[1].time + 7ms);
  CHECK(median_time(steps) == steps[1].time + 4ms);
  const Timeline typical = median_iteration(run.timeline);
  CHECK(step_time(typical) == median_time(steps));
  CHECK(typical.spans.size() * 3 == run.timeline.spans.size());
  CHECK(measured_steps(run.program, typical)[0].time == median_time(steps));
}

TEST_CASE("sums of weights over several stages are told apart by their order", "[measured_steps]") {
  Run run =
      run_of("1f1b", 2,
             {.ties = {{.owner = 0, .user = 1, .bytes = 8}, {.owner = 0, .user = 1, .bytes = 64}}});
  const Instruction sum{Op::reduce_tied, 0, 2};
  CHECK(std::ranges::count(run.timeline.spans, sum, &Span::instruction) == 2 * 2);
  std::find_if(run.timeline.spans.rbegin(), run.timeline.spans.rend(), [&](const Span& span) {
    return span.instruction == sum;
  })->end += 1ms;
  const std::vector<MeasuredStep> steps = measured_steps(run.program, run.timeline);
  REQUIRE(steps.size() == 2);
  std::vector<Duration> times;
  for (const int i : run.program.order[0]) {
    if (run.program.work[index(i)].instruction == sum)
      times.push_back(steps[1].work[index(i)].end - steps[1].work[index(i)].start);
  }
  CHECK(times == std::vector<Duration>{0ms, 1ms});
  Timeline thrice = run.timeline;
  thrice.spans.push_back(*std::ranges::find(run.timeline.spans, sum, &Span::instruction));
  CHECK(message_of([&] {
          measured_steps(run.program, thrice);
        }).starts_with("the timeline has T0.2 on device 0 more than 2 times in its step 0"));
}

TEST_CASE("timelines of other plans and those cut short are refused", "[measured_steps]") {
  const Run run = run_of("1f1b", 2);
  const auto complaint = [&](Timeline timeline) {
    return message_of([&] { measured_steps(run.program, timeline); });
  };
  CHECK(complaint(run.timeline).empty());
  Timeline other = run.timeline;
  other.devices = 3;
  CHECK(complaint(other) ==
        "the timeline is of 3 devices, the plan of 2: it is of another plan; record one with "
        "stagecraft run PLAN --trace FILE");
  Timeline cut = run.timeline;
  std::erase_if(cut.spans, [](const Span& span) {
    return span.iteration == 1 && span.instruction == Instruction{Op::backward, 1, 2};
  });
  CHECK(
      complaint(cut).starts_with("the timeline lacks B1.2 on device 1 (stage 1) in its step 1: it "
                                 "is of another plan, or cut"));
  Timeline strange = run.timeline;
  strange.spans[0].instruction = {Op::forward, 0, 9};
  CHECK(
      complaint(strange).starts_with("the timeline has F0.9 on device 0, which the plan has not"));
  Timeline twice = run.timeline;
  twice.spans.push_back(twice.spans.back());
  CHECK(complaint(twice).find("twice in its step 1") != std::string::npos);
  Timeline skips = run.timeline;
  for (Span& span : skips.spans) span.iteration *= 2;
  CHECK(complaint(skips).find("in its step 1") != std::string::npos);
  CHECK(complaint({.devices = 2}) ==
        "the timeline is empty; record one with stagecraft run PLAN --trace FILE");
}
