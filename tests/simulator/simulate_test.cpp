#include "simulator/simulate.hpp"

#include "profiles/error.hpp"
#include "simulator/checks/check.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/mutations.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Schedule make(Schedule (*generate)(const ScheduleShape&), const Shape& shape,
              std::vector<int> warm_up = {}) {
  return generate({.devices = shape.devices,
                   .microbatches = shape.microbatches,
                   .warm_up = std::move(warm_up)});
}

/// Starts and ends by the definitions alone: raise every time to what its rule demands, until
/// nothing changes.
struct FixedPoint {
  std::vector<Duration> start, end;
};

Duration cost_of(const Costs& costs, const Work& work) {
  const ChunkCosts& chunk = costs.chunks[index(work.chunk)];
  switch (work.instruction.op) {
    case Op::forward: return chunk.forward;
    case Op::backward: return chunk.backward;
    case Op::backward_input: return chunk.backward_input;
    case Op::backward_weight: return chunk.backward_weight;
    case Op::recompute: return chunk.recompute;
    case Op::update: return chunk.update;
    default: break;
  }
  if (work.group) return costs.groups[index(*work.group)];
  return costs.channels[index(*work.channel)].latency +
         costs.channels[index(*work.channel)].occupancy;
}

/// What a fused pair takes: as its forward's chunk says, or one half after the other.
Duration pair_cost(const Costs& costs, const Work& one, const Work& other) {
  const Work& forward = one.instruction.op == Op::forward ? one : other;
  const Duration in_turn = cost_of(costs, one) + cost_of(costs, other);
  return costs.chunks[index(forward.chunk)].fused.value_or(in_turn);
}

FixedPoint fixed_point(const Program& program, const Costs& costs) {
  const std::size_t count = program.work.size();
  FixedPoint times{std::vector<Duration>(count), std::vector<Duration>(count)};
  const auto demand = [&](int later, Duration time) {
    if (times.start[index(later)] >= time) return false;
    times.start[index(later)] = time;
    return true;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < static_cast<int>(count); ++i) {
      const Work& work = program.work[index(i)];
      const Duration cost = work.fused_with
                                ? pair_cost(costs, work, program.work[index(*work.fused_with)])
                                : cost_of(costs, work);
      times.end[index(i)] = times.start[index(i)] + cost;
    }
    for (int i = 0; i < static_cast<int>(count); ++i) {
      const Work& work = program.work[index(i)];
      for (const int on : waits_of(program, i)) {
        const bool transfer = is_receive(work.instruction.op) && program.work[index(on)].channel &&
                              is_send(program.work[index(on)].instruction.op) &&
                              program.work[index(on)].channel == work.channel;
        changed |= demand(i, transfer ? times.start[index(on)] : times.end[index(on)]);
      }
      if (work.fused_with) changed |= demand(i, times.start[index(*work.fused_with)]);
      if (!work.group) continue;
      for (int other = 0; other < static_cast<int>(count); ++other) {
        const Work& peer = program.work[index(other)];
        if (peer.group == work.group) changed |= demand(i, times.start[index(other)]);
      }
    }
    for (const auto& order : program.order) {
      std::optional<int> compute, collective;
      std::vector<std::optional<int>> sends(program.channels.size());
      for (const int i : order) {
        const Work& work = program.work[index(i)];
        if (work.lane == Lane::receive) continue;
        std::optional<int>& before = work.lane == Lane::compute ? compute
                                     : work.channel             ? sends[index(*work.channel)]
                                                                : collective;
        if (before && work.fused_with != before) {
          const Duration latency =
              work.channel ? costs.channels[index(*work.channel)].latency : Duration{0};
          changed |= demand(i, times.end[index(*before)] - latency);
        }
        before = i;
      }
    }
  }
  return times;
}

}  // namespace

TEST_CASE("GPipe, 1F1B and DAPPLE-PB take (m + p - 1)(f + b)") {
  for (const Shape& shape : plain_shapes()) {
    const auto [p, m] = shape;
    CAPTURE(p, m);
    const int microbatches = m;
    struct Row {
      Schedule schedule;
      std::vector<int> peaks;
    };
    for (const Row& row :
         {Row{make(gpipe, shape), per_device(p, [&](int) { return microbatches; })},
          Row{make(one_f_one_b, shape),
              per_device(p,
                         [&, devices = p](int r) { return std::min(devices - r, microbatches); })},
          Row{make(one_f_one_b, shape, deep_warm_up(p)), per_device(p, [&, devices = p](int r) {
                return std::min(2 * (devices - r) - 1, microbatches);
              })}}) {
      const Timeline timeline = run(row.schedule, chunk_costs(forward_time, backward_time));
      CHECK(step_time(timeline) == (m + p - 1) * (forward_time + backward_time));
      CHECK(peak_in_flight(timeline) == row.peaks);
      CHECK(peak_in_flight(row.schedule) == row.peaks);
      CHECK(message_count(timeline) == 2 * m * (p - 1));
      CHECK(busy_times(timeline) ==
            std::vector<Duration>(index(p), m * (forward_time + backward_time)));
    }
  }
}

TEST_CASE("interleaved takes m(f + b) + (p - 1)(f + b) / v") {
  const Duration forward = 12ms;  // whole milliseconds for every v
  const Duration backward = 24ms;
  for (const ScheduleShape& shape : interleaved_shapes()) {
    const int p = shape.devices, m = shape.microbatches, v = shape.virtual_stages;
    CAPTURE(p, m, v, *shape.group);
    const Schedule schedule = interleaved(shape);
    const Timeline timeline = run(schedule, chunk_costs(forward, backward, v));
    CHECK(step_time(timeline) == m * (forward + backward) + (p - 1) * (forward + backward) / v);
    const auto held = [&](int r) {
      return std::min(m * v, 2 * (p - r - 1) + (v - 1) * *shape.group + 1);
    };
    CHECK(peak_in_flight(timeline) == per_device(p, held));
    CHECK(peak_in_flight(schedule) == per_device(p, held));
    // With one device all stages hand over locally.
    CHECK(message_count(timeline) == (p == 1 ? 0 : 2 * m * (p * v - 1)));
  }
}

TEST_CASE("the example of the handbook: p = 4, m = 8, f = 10 ms, b = 20 ms") {
  const Timeline timeline =
      run(make(one_f_one_b, {4, 8}), chunk_costs(forward_time, backward_time));
  CHECK(step_time(timeline) == 330ms);
  CHECK(bubble(timeline) == Approx(1 - 240.0 / 330));  // 0.2727…
  CHECK(peak_in_flight(timeline) == std::vector{4, 3, 2, 1});
}

TEST_CASE("latency costs 1F1B 2c(n - floor(n / p)), n = m + p - 2") {
  for (const Shape& shape : plain_shapes()) {
    const auto [p, m] = shape;
    const int n = m + p - 2;
    for (const Duration c : {1ms, 7ms, 40ms}) {
      CAPTURE(p, m, c.count());
      const Timeline timeline =
          run(make(one_f_one_b, shape), chunk_costs(forward_time, backward_time), c);
      CHECK(step_time(timeline) ==
            (m + p - 1) * (forward_time + backward_time) + 2 * (n - n / p) * c);
    }
  }
}

TEST_CASE("DAPPLE-PB hides latency up to (f + b) / 2") {
  for (const Shape& shape : plain_shapes()) {
    const auto [p, m] = shape;
    for (const Duration c : {1ms, 7ms, 15ms}) {
      CAPTURE(p, m, c.count());
      const Timeline timeline = run(make(one_f_one_b, shape, deep_warm_up(p)),
                                    chunk_costs(forward_time, backward_time), c);
      CHECK(step_time(timeline) == (m + p - 1) * (forward_time + backward_time) + 2 * (p - 1) * c);
    }
  }
}

TEST_CASE("latency costs interleaved 2(vp - 1)c up to min(f, b) / v, for groups of p") {
  const Duration forward = 12ms;
  const Duration backward = 24ms;
  for (const int p : {2, 3, 4, 8}) {
    for (const int v : {2, 3, 4}) {
      for (const int m : {2 * p, 3 * p, 4 * p}) {
        for (const Duration c : {Duration{1ms}, forward / v}) {
          CAPTURE(p, v, m, c.count());
          const Timeline timeline =
              run(interleaved({.devices = p, .microbatches = m, .virtual_stages = v}),
                  chunk_costs(forward, backward, v), c);
          CHECK(step_time(timeline) == m * (forward + backward) +
                                           (p - 1) * (forward + backward) / v +
                                           2 * (v * p - 1) * c);
        }
      }
    }
  }
}

TEST_CASE("full recomputation inside the backward takes (m + p - 1)(2f + b)") {
  for (const Shape& shape : plain_shapes()) {
    const auto [p, m] = shape;
    CAPTURE(p, m);
    LowerOptions options;
    options.recompute.assign(index(p), Recompute::full);
    const Timeline timeline = run(make(one_f_one_b, shape),
                                  chunk_costs(forward_time, backward_time), Duration{0}, options);
    CHECK(step_time(timeline) == (m + p - 1) * (2 * forward_time + backward_time));
    CHECK(busy_times(timeline) ==
          std::vector<Duration>(index(p), m * (2 * forward_time + backward_time)));
  }
}

TEST_CASE("recomputation that does not wait for the gradient takes m(2f + b) + (p - 1)(f + b)") {
  for (const Shape& shape : plain_shapes()) {
    const auto [p, m] = shape;
    CAPTURE(p, m);
    Schedule schedule = make(one_f_one_b, shape);
    for (auto& order : schedule.devices) {
      std::vector<Instruction> with;
      for (const Instruction& instruction : order) {
        if (instruction.op == Op::backward) {
          with.push_back({Op::recompute, instruction.stage, instruction.microbatch});
        }
        with.push_back(instruction);
      }
      order = with;
    }
    LowerOptions options;
    options.recompute.assign(index(p), Recompute::full);  // adds no second one
    CHECK(
        step_time(run(schedule, chunk_costs(forward_time, backward_time), Duration{0}, options)) ==
        m * (2 * forward_time + backward_time) + (p - 1) * (forward_time + backward_time));
  }
}

TEST_CASE("times equal the least ones that satisfy every rule, on random programs", "[seconds]") {
  Random random(1);
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    auto [program, costs] = random_case(random, round % 8 == 0 ? all_kinds : RandomKinds{});
    for (ChunkCosts& chunk : costs.chunks) {
      if (random.below(2) == 1) chunk.fused = Duration{random.below(80)};
    }
    const FixedPoint expected = fixed_point(program, costs);
    const Timeline timeline = simulate(program, costs);
    REQUIRE(timeline.spans.size() == program.work.size());

    std::vector<std::tuple<int, Lane, Instruction, Duration, Duration>> wanted, got;
    for (int i = 0; i < static_cast<int>(program.work.size()); ++i) {
      const Work& work = program.work[index(i)];
      wanted.emplace_back(device_of(program, i), work.lane, work.instruction,
                          expected.start[index(i)], expected.end[index(i)]);
    }
    for (const Span& span : timeline.spans) {
      got.emplace_back(span.device, span.lane, span.instruction, span.start, span.end);
    }
    std::sort(wanted.begin(), wanted.end());
    std::sort(got.begin(), got.end());
    CHECK(got == wanted);
  }
}

TEST_CASE("scaling all costs scales the time, and more of any cost never saves any") {
  Random random(2);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    auto [program, costs] = random_case(random);
    const Duration step = step_time(simulate(program, costs));

    Costs threefold = costs;
    for (ChunkCosts& chunk : threefold.chunks) {
      for (Duration* time : {&chunk.forward, &chunk.backward, &chunk.backward_input,
                             &chunk.backward_weight, &chunk.recompute, &chunk.update}) {
        *time *= 3;
      }
    }
    for (ChannelCosts& channel : threefold.channels) {
      channel = {.latency = channel.latency * 3, .occupancy = channel.occupancy * 3};
    }
    for (Duration& group : threefold.groups) group *= 3;
    CHECK(step_time(simulate(program, threefold)) == 3 * step);

    ChunkCosts& chunk = costs.chunks[index(random.below(static_cast<int>(costs.chunks.size())))];
    chunk.forward += 5ns;
    chunk.backward += 5ns;
    if (!costs.channels.empty()) costs.channels.front().latency += 5ns;
    CHECK(step_time(simulate(program, costs)) >= step);
  }
}

TEST_CASE("the same input gives the same timeline") {
  Random random(3);
  const Schedule schedule = random_schedule(random);
  const LowerOptions options = random_options(random, schedule);
  const Program program = lower(schedule, options);
  const Costs costs = random_costs(random, program);
  CHECK(lower(schedule, options) == program);
  CHECK(simulate(program, costs) == simulate(program, costs));
}

TEST_CASE("a channel carries one message at a time, with latency on top") {
  // Device 0: F0 [0, 10), F1 [10, 20), F2 [20, 30). A message occupies the channel for 25 and
  // arrives 5 later.
  const Program program = lower(make(gpipe, {2, 3}));
  Costs costs = uniform(program, {.forward = 10ns, .backward = 0ns});
  costs.channels[0] = {.latency = 5ns, .occupancy = 25ns};
  std::vector<std::pair<Duration, Duration>> sends, receives, forwards;
  for (const Span& span : simulate(program, costs).spans) {
    const auto interval = std::pair{span.start, span.end};
    if (span.instruction.op == Op::send_activation) sends.push_back(interval);
    if (span.instruction.op == Op::receive_activation) receives.push_back(interval);
    if (span.instruction.op == Op::forward && span.device == 1) forwards.push_back(interval);
    if (span.lane == Lane::send) CHECK(span.peer == 1 - span.device);
    if (span.lane == Lane::receive) CHECK(span.peer == 1 - span.device);
    if (span.lane == Lane::compute) CHECK_FALSE(span.peer.has_value());
  }
  using Intervals = std::vector<std::pair<Duration, Duration>>;
  CHECK(sends == Intervals{{10ns, 40ns}, {35ns, 65ns}, {60ns, 90ns}});
  CHECK(receives == sends);
  CHECK(forwards == Intervals{{40ns, 50ns}, {65ns, 75ns}, {90ns, 100ns}});
}

TEST_CASE("a collective waits for its last member and ends everywhere at once") {
  LowerOptions options;
  options.replicas = {{0, 1}};
  options.rows = 2;
  const Program program = lower(make(one_f_one_b, {1, 1}), options);
  Costs costs = uniform(program, chunk_costs(10ns, 20ns));
  costs.chunks[1].backward = 50ns;  // the slower replica: ready at 60
  costs.chunks[0].update = 3ns;
  costs.groups[0] = 7ns;
  for (const Span& span : simulate(program, costs).spans) {
    if (span.lane == Lane::collective) {
      CHECK(to_string(span.instruction) == "G0.0");
      CHECK(span.start == 60ns);
      CHECK(span.end == 67ns);
    }
    if (span.instruction.op == Op::update) {
      CHECK(span.start == 67ns);
      CHECK(span.end == (span.device == 0 ? 70ns : 67ns));
    }
  }
}

TEST_CASE("iterations follow each other, with or without a barrier") {
  const Program program = lower(make(one_f_one_b, {4, 8}));
  ChunkCosts chunk = chunk_costs(forward_time, backward_time);
  chunk.update = 5ms;
  const Costs costs = uniform(program, chunk);
  // Device 0 ends last and starts first: 1F1B gains nothing from dropping the barrier.
  for (const bool barrier : {true, false}) {
    const Timeline timeline = simulate(program, costs, {.iterations = 3, .barrier = barrier});
    CHECK(step_time(timeline) == 3 * 335ms);
    CHECK(timeline.spans.size() == 3 * program.work.size());
    CHECK(peak_in_flight(timeline) == std::vector{4, 3, 2, 1});
  }
}

TEST_CASE("without a barrier a device goes on as soon as its own updates are done") {
  // Only device 1 has a long update, after its last backward: it has ended before F0.0 comes around
  // again.
  const Program program = lower(make(one_f_one_b, {2, 1}));
  Costs costs = uniform(program, chunk_costs(10ns, 20ns));
  costs.chunks[1].update = 30ns;
  // Device 0: F [0, 10), B [40, 60); device 1: F [10, 20), B [20, 40), U [40, 70).
  CHECK(step_time(simulate(program, costs, {.iterations = 2, .barrier = true})) == 140ns);
  // Second iteration: F0.0 [60, 70), F1.0 [70, 80), B1.0 [80, 100), U1.0 [100, 130).
  CHECK(step_time(simulate(program, costs, {.iterations = 2, .barrier = false})) == 130ns);
}

TEST_CASE("devices that wait for each other are named") {
  const Schedule schedule = circular_schedule();
  const Program program = lower(schedule);
  try {
    simulate(program, uniform(program, chunk_costs(forward_time, backward_time)));
    FAIL("it cannot proceed");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::check);
    CHECK(error.message() ==
          "simulate: devices wait for each other: B0.0 on device 0, which waits for RB0.0 on "
          "device 0, which waits for SB1.0 on device 1, which waits for B1.0 on device 1, which "
          "comes after RF1.1 on device 1, which waits for SF0.1 on device 0, which waits for F0.1 "
          "on device 0, which comes after B0.0 on device 0");
  }
  CHECK_FALSE(check(program).safe());
}

TEST_CASE("a wait for work that is never issued is an error, too") {
  Program program = lower(make(gpipe, {2, 1}));
  program.order[0].clear();
  CHECK_THROWS_WITH(simulate(program, uniform(program, chunk_costs(forward_time, backward_time))),
                    "simulate: RF1.0 on device 1 waits for ever: F0.0 on device 0 is never issued");
}

TEST_CASE("costs that do not fit the program, or do not fit Duration, are refused") {
  const Program program = lower(make(gpipe, {2, 4}));
  Costs costs = uniform(program, chunk_costs(forward_time, backward_time));
  costs.channels.clear();
  CHECK_THROWS_WITH(simulate(program, costs), ContainsSubstring("list 0 channels"));
  costs = uniform(program, chunk_costs(-1ns, backward_time));
  CHECK_THROWS_WITH(simulate(program, costs), ContainsSubstring("expected 0 or more"));
  costs = uniform(program, chunk_costs(Duration::max() / 4, Duration{0}));
  CHECK_THROWS_WITH(simulate(program, costs), ContainsSubstring("exceed 292 years"));
  CHECK_THROWS_WITH(simulate(program, uniform(program, chunk_costs(forward_time, backward_time)),
                             {.iterations = 0, .barrier = true}),
                    ContainsSubstring("at least one iteration"));
}
