#include "simulator/analyses/critical_path.hpp"

#include <set>

#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

namespace stagecraft {
namespace {

using namespace tests;

Duration sum(const std::vector<CriticalRun>& runs) {
  Duration time{0};
  for (const CriticalRun& run : runs) time += run.time;
  return time;
}

CriticalRun compute(int round, int device, Op op, int first, int last, Duration time) {
  return {.round = round,
          .device = device,
          .peer = {},
          .op = op,
          .stage = device,
          .first_microbatch = first,
          .last_microbatch = last,
          .count = last - first + 1,
          .time = time};
}

CriticalRun message(int round, int from, int to, Op op, int microbatch, Duration time) {
  CriticalRun run = compute(round, from, op, microbatch, microbatch, time);
  run.peer = to;
  return run;
}

/// The step when this compute work takes `more`: it gets a chunk, and so costs, of its own.
Duration step_with(Program program, Costs costs, int work, Duration more) {
  const std::size_t chunk = index(program.work[index(work)].chunk);
  ChunkCosts& own = costs.chunks.emplace_back(costs.chunks[chunk]);
  program.work[index(work)].chunk = static_cast<int>(program.chunks.size());
  program.chunks.push_back(program.chunks[chunk]);
  for (Duration* cost : {&own.forward, &own.backward, &own.backward_input, &own.backward_weight,
                         &own.recompute, &own.update}) {
    *cost += more;
  }
  return step_time(simulate(program, costs));
}

TEST_CASE("1F1B's critical path passes every microbatch on the last device") {
  const Program program = lower(one_f_one_b({.devices = 4, .microbatches = 8}));
  const CriticalPath path = critical_path(program, uniform(program, chunk_costs(10ms, 20ms)));
  CHECK(path.runs == std::vector<CriticalRun>{
                         compute(0, 0, Op::forward, 0, 0, 10ms),
                         compute(1, 1, Op::forward, 0, 0, 10ms),
                         compute(2, 2, Op::forward, 0, 0, 10ms),
                         compute(3, 3, Op::forward, 0, 7, 80ms),
                         compute(3, 3, Op::backward, 0, 7, 160ms),
                         compute(4, 2, Op::backward, 7, 7, 20ms),
                         compute(5, 1, Op::backward, 7, 7, 20ms),
                         compute(6, 0, Op::backward, 7, 7, 20ms),
                     });
}

TEST_CASE("A critical path passes messages with their latency, and a slow link's occupancy") {
  const Program program = lower(gpipe({.devices = 2, .microbatches = 3}));
  Costs costs = uniform(program, chunk_costs(1ms, 1ms), 2ms);
  const CriticalPath latency = critical_path(program, costs);
  // Neither device rests between its first and its last forward, or backward: the path stays
  // where it is.
  CHECK(latency.runs ==
        std::vector<CriticalRun>{
            compute(0, 0, Op::forward, 0, 0, 1ms), message(1, 0, 1, Op::send_activation, 0, 2ms),
            compute(2, 1, Op::forward, 0, 2, 3ms), compute(3, 1, Op::backward, 0, 0, 1ms),
            message(4, 1, 0, Op::send_gradient, 0, 2ms), compute(5, 0, Op::backward, 0, 2, 3ms)});

  // 10 ms per message on one link: the three messages follow each other, the last one entire.
  for (std::size_t i = 0; i < program.channels.size(); ++i) {
    if (program.channels[i].cargo == Cargo::activation) costs.channels[i].occupancy = 10ms;
  }
  const CriticalPath occupied = critical_path(program, costs);
  REQUIRE(occupied.runs.size() == 6);
  CHECK(occupied.runs[0] == compute(0, 0, Op::forward, 0, 0, 1ms));
  CHECK(occupied.runs[1].op == Op::send_activation);
  CHECK(occupied.runs[1].count == 3);
  CHECK(occupied.runs[1].time == 10ms + 10ms + 12ms);
}

TEST_CASE("Messages of equal rounds are folded, however long the path zigzags") {
  const Program program = lower(one_f_one_b({.devices = 4, .microbatches = 200}));
  const CriticalPath path = critical_path(program, uniform(program, chunk_costs(10ms, 20ms), 1ms));
  CHECK(path.works.size() > 500);
  CHECK(path.runs.size() < 40);
  CHECK(sum(path.runs) == (200 + 3) * 30ms + 2 * 1ms * (202 - 202 / 4));
}

TEST_CASE("The critical path of any program adds up to its step, and has no slack") {
  Random random(11);
  for (int i = 0; i < 150; ++i) {
    const auto [program, costs] = random_case(random);
    const CriticalPath path = critical_path(program, costs);
    const Timeline timeline = simulate(program, costs);
    REQUIRE(sum(path.runs) == step_time(timeline));
    REQUIRE(critical_path(program, costs).runs == path.runs);
    for (const int work : path.works) REQUIRE(path.slack[index(work)] == Duration{0});
    for (const Duration slack : path.slack) REQUIRE(slack >= Duration{0});
  }
}

TEST_CASE("Slack is how much longer a work may take for nothing, and not a nanosecond more") {
  Random random(12);
  for (int i = 0; i < 12; ++i) {
    const auto [program, costs] = random_case(random);
    const Duration step = step_time(simulate(program, costs));
    const std::vector<Duration> slack = critical_path(program, costs).slack;
    for (int work = 0; work < static_cast<int>(program.work.size()); ++work) {
      if (program.work[index(work)].lane != Lane::compute) continue;
      REQUIRE(step_with(program, costs, work, slack[index(work)]) == step);
      REQUIRE(step_with(program, costs, work, slack[index(work)] + Duration{1}) ==
              step + Duration{1});
    }
  }
}

TEST_CASE("Latencies in the step are what an independent simulator found") {
  // p = 8, m = 32, f = i = w: the slope of the step over a small latency.
  struct Row {
    std::string_view schedule;
    int virtual_stages;
    std::int64_t latencies;
  };
  const Row row = GENERATE(Row{"gpipe", 1, 14}, Row{"1f1b", 1, 68}, Row{"dapple-pb", 1, 14},
                           Row{"interleaved", 2, 30}, Row{"looped-bfs", 2, 14}, Row{"zb-h1", 1, 28},
                           Row{"zb-h2", 1, 7}, Row{"zb-v", 2, 33});
  INFO(row.schedule);
  const Program program = lower(
      find_schedule(row.schedule)
          .generate({.devices = 8, .microbatches = 32, .virtual_stages = row.virtual_stages}));
  const Costs costs = uniform(program, split_costs(10ms, 10ms, 10ms, row.virtual_stages));
  CHECK(latencies_in_step(program, costs) == row.latencies);
}

TEST_CASE("A program without work has an empty critical path") {
  Program program;
  program.devices = 1;
  program.order.resize(1);
  CHECK(critical_path(program, {}).runs.empty());
}

TEST_CASE("The spans of the longest chain follow each other from the first moment to the last") {
  for (const ScheduleKind& kind : schedule_kinds) {
    const ScheduleShape shape{
        .devices = 4, .microbatches = 8, .virtual_stages = fewest_virtual_stages(kind.placement)};
    const auto schedule = generated(kind, shape);
    if (!schedule) continue;
    const Program program = lower(*schedule);
    const Costs costs = uniform(program, split_costs(10ns, 12ns, 8ns), 3ns);
    const Timeline timeline = simulate(program, costs);
    const std::vector<char> marks = on_path(critical_path(program, costs), program, timeline);
    REQUIRE(marks.size() == timeline.spans.size());
    Duration covered{
        0};  // by compute and messages; both ends of a message, both of a pair count once
    std::set<std::pair<Duration, Duration>> intervals;
    for (std::size_t i = 0; i < marks.size(); ++i) {
      const Span& span = timeline.spans[i];
      if (marks[i] != 0 && span.time() > 0ns) intervals.emplace(span.start, span.end);
    }
    for (const auto& [start, end] : intervals) {
      CAPTURE(kind.name);
      CHECK(start == covered);
      covered = end;
    }
    CHECK(covered == step_time(timeline));
  }
}

}  // namespace
}  // namespace stagecraft
