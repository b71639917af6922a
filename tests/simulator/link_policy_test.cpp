// The ways of communicating: what each costs, by arithmetic; what they owe each other.

#include "profiles/error.hpp"
#include "simulator/engines/events.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

constexpr std::array policies{LinkPolicy::async,           LinkPolicy::blocking_pair,
                              LinkPolicy::prefetch,        LinkPolicy::in_order,
                              LinkPolicy::commit_and_wait, LinkPolicy::lock_step};

Schedule one_f_one_b_of(int devices, int microbatches) {
  return one_f_one_b({.devices = devices, .microbatches = microbatches});
}

Duration step_of(const Schedule& schedule, const Environment& environment, const ChunkCosts& chunk,
                 Duration transfer = Duration{0}) {
  const Program program = lower(schedule);
  return step_time(simulate_events(program, uniform(program, chunk, transfer), environment));
}

/// None where the program cannot proceed.
std::optional<Duration> step_of(const Program& program, const Costs& costs,
                                const Environment& environment) {
  try {
    return step_time(simulate_events(program, costs, environment));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::check);
    return {};
  }
}

}  // namespace

TEST_CASE("a blocking exchange of pairs costs 1F1B c(2(m + p) - 5), with two devices c(m + 1)") {
  for (const Shape& shape : plain_shapes()) {
    const auto [p, m] = shape;
    if (p < 2 || m < 2) continue;
    for (const Duration c : {1ms, 3ms, 10ms}) {
      CAPTURE(p, m, c.count());
      const Duration step = step_of(one_f_one_b_of(p, m), {.policy = LinkPolicy::blocking_pair},
                                    chunk_costs(forward_time, backward_time), c);
      CHECK(step - (m + p - 1) * (forward_time + backward_time) ==
            (p == 2 ? m + 1 : 2 * (m + p) - 5) * c);
    }
  }
}

TEST_CASE("a message at a time in issue order: GPipe on two devices takes 2(f + b) + 2mc, c >= b") {
  for (const int m : {1, 2, 5, 16}) {
    for (const Duration c : {20ms, 33ms}) {
      CAPTURE(m, c.count());
      const Schedule schedule = gpipe({.devices = 2, .microbatches = m});
      CHECK(step_of(schedule, {.policy = LinkPolicy::in_order},
                    chunk_costs(forward_time, backward_time),
                    c) == 2 * (forward_time + backward_time) + 2 * m * c);
      CHECK(step_of(schedule, {}, chunk_costs(forward_time, backward_time), c) ==
            (m + 1) * (forward_time + backward_time) + 2 * c);
    }
  }
}

TEST_CASE("batches committed after each compute: GPipe on two devices takes (m + 1)(f + b) + 2mc") {
  for (const int m : {1, 2, 5, 16}) {
    for (const Duration c : {1ms, 20ms, 33ms}) {
      CAPTURE(m, c.count());
      CHECK(step_of(gpipe({.devices = 2, .microbatches = m}),
                    {.policy = LinkPolicy::commit_and_wait},
                    chunk_costs(forward_time, backward_time),
                    c) == (m + 1) * (forward_time + backward_time) + 2 * m * c);
    }
  }
}

TEST_CASE(
    "in lock step 1F1B takes pf + (2m + p - 2)b: from step p on, some device does a backward") {
  for (const Shape& shape : plain_shapes()) {
    const auto [p, m] = shape;
    if (p < 2) continue;
    CAPTURE(p, m);
    CHECK(step_of(one_f_one_b_of(p, m), {.policy = LinkPolicy::lock_step},
                  chunk_costs(forward_time, backward_time)) ==
          p * forward_time + (2 * m + p - 2) * backward_time);
  }
}

TEST_CASE("with f = b, lock step costs 1F1B nothing") {
  for (const Shape& shape : plain_shapes()) {
    const auto [p, m] = shape;
    CAPTURE(p, m);
    CHECK(step_of(one_f_one_b_of(p, m), {.policy = LinkPolicy::lock_step},
                  chunk_costs(forward_time, forward_time)) == 2 * (m + p - 1) * forward_time);
  }
}

TEST_CASE("a ring of one buffer: a message leaves when the one before it is being used") {
  // GPipe on two devices, c >= f: F1.k starts, a buffer is free, c later F1.(k + 1) starts.
  for (const int m : {1, 2, 5}) {
    const Duration c = 30ms;
    CAPTURE(m);
    const Schedule schedule = gpipe({.devices = 2, .microbatches = m});
    const Environment environment{.policy = LinkPolicy::prefetch};
    CHECK(step_of(schedule, environment, chunk_costs(forward_time, backward_time), c) ==
          2 * (forward_time + backward_time) + 2 * m * c);
    const Environment wide{.policy = LinkPolicy::prefetch, .buffers = m};
    CHECK(step_of(schedule, wide, chunk_costs(forward_time, backward_time), c) ==
          (m + 1) * (forward_time + backward_time) + 2 * c);
  }
}

TEST_CASE("rendezvous: a message starts when its receiver has nothing else to do before") {
  // GPipe on two devices: device 1 repeats c, f; then device 0 repeats c, b.
  for (const int m : {1, 2, 5}) {
    CAPTURE(m);
    CHECK(step_of(gpipe({.devices = 2, .microbatches = m}), {.protocol = Protocol::rendezvous},
                  chunk_costs(forward_time, backward_time), 7ms) ==
          forward_time + m * (7ms + forward_time) + backward_time + m * (7ms + backward_time));
  }
}

TEST_CASE("every schedule finishes, or names a cycle, under every policy, and none beats async") {
  for (const ScheduleKind& kind : schedule_kinds) {
    for (const Shape& shape : {Shape{2, 4}, Shape{4, 8}}) {
      const auto schedule =
          generated(kind, {.devices = shape.devices,
                           .microbatches = shape.microbatches,
                           .virtual_stages = fewest_virtual_stages(kind.placement)});
      if (!schedule) continue;
      CAPTURE(kind.name, shape.devices);
      const Program program = lower(*schedule);
      const Costs costs =
          uniform(program, split_costs(forward_time, forward_time, forward_time), 3ms);
      const Duration least = step_time(simulate(program, costs));
      for (const LinkPolicy policy : policies) {
        CAPTURE(to_string(policy));
        const auto step = step_of(program, costs, {.policy = policy});
        // What is issued in one global order cannot wait in a circle, unless computes stand in it.
        if (policy != LinkPolicy::blocking_pair && policy != LinkPolicy::prefetch) CHECK(step);
        if (step) CHECK(*step >= least);
      }
    }
  }
}

TEST_CASE("more buffers are never slower, rendezvous never faster, blocking pairs even slower") {
  for (const ScheduleKind& kind : schedule_kinds) {
    const auto schedule = generated(
        kind,
        {.devices = 4, .microbatches = 8, .virtual_stages = fewest_virtual_stages(kind.placement)});
    if (!schedule) continue;
    CAPTURE(kind.name);
    const Program program = lower(*schedule);
    const Costs costs =
        uniform(program, split_costs(forward_time, forward_time, forward_time), 12ms);
    std::vector<std::optional<Duration>> steps{step_time(simulate(program, costs))};
    for (const int buffers : {4, 2, 1}) {
      steps.push_back(
          step_of(program, costs, {.policy = LinkPolicy::prefetch, .buffers = buffers}));
    }
    steps.push_back(step_of(program, costs, {.protocol = Protocol::rendezvous}));
    steps.push_back(step_of(program, costs, {.policy = LinkPolicy::blocking_pair}));
    for (std::size_t i = 1; i < steps.size(); ++i) {
      CAPTURE(i);
      if (steps[i]) CHECK((steps[i - 1] && *steps[i - 1] <= *steps[i]));
    }
  }
}

TEST_CASE("under every policy, costs scale and never help, iterations add up behind a barrier",
          "[seconds]") {
  Random random(21);
  for (int round = 0; round < 80; ++round) {
    auto [program, costs] = random_case(random);
    for (const LinkPolicy policy : policies) {
      CAPTURE(round, to_string(policy));
      const Environment environment{.policy = policy};
      const auto step = step_of(program, costs, environment);
      if (!step) continue;
      Costs more = costs, threefold = costs;
      for (ChannelCosts& channel : threefold.channels) {
        channel = {.latency = channel.latency * 3, .occupancy = channel.occupancy * 3};
      }
      for (Duration& group : threefold.groups) group *= 3;
      for (ChunkCosts& chunk : threefold.chunks) {
        for (Duration* time : {&chunk.forward, &chunk.backward, &chunk.backward_input,
                               &chunk.backward_weight, &chunk.recompute, &chunk.update}) {
          *time *= 3;
        }
      }
      ChunkCosts& chunk = more.chunks[index(random.below(static_cast<int>(more.chunks.size())))];
      chunk.forward += 5ns;
      chunk.backward_weight += 5ns;
      if (!more.channels.empty()) more.channels.back().latency += 5ns;
      CHECK(step_of(program, threefold, environment) == 3 * *step);
      CHECK(step_of(program, more, environment) >= step);
      CHECK(step_time(simulate_events(program, costs, environment, {.iterations = 3})) ==
            3 * *step);
      CHECK(step_time(simulate_events(program, costs, environment,
                                      {.iterations = 3, .barrier = false})) <= 3 * *step);
    }
  }
}

TEST_CASE("a ring too small for the order in which messages are needed is a cycle, named") {
  // Device 0 sends 0 then 1; device 1 needs 1 first.
  Schedule schedule = gpipe({.devices = 2, .microbatches = 2});
  std::swap(schedule.devices[1][0], schedule.devices[1][1]);
  const Program program = lower(schedule);
  const Costs costs = uniform(program, chunk_costs(forward_time, backward_time));
  CHECK_THROWS_WITH(
      simulate_events(program, costs, {.policy = LinkPolicy::prefetch}),
      "simulate: devices wait for each other: SF0.1 on device 0, which needs a buffer that is "
      "emptied by F1.0 on device 1, which comes after F1.1 on device 1, which waits for RF1.1 on "
      "device 1, which waits for SF0.1 on device 0");
  CHECK_NOTHROW(simulate_events(program, costs, {.policy = LinkPolicy::prefetch, .buffers = 2}));
}

TEST_CASE("two devices that each send first, on one communicator, wait for each other") {
  // As in pytorch's issue 172668: [.. SF, RB] against [.. SB, RF].
  const Program program = lower(one_f_one_b_of(2, 2));
  Program crossed = program;
  const auto place = [&](int device, const std::string& name) {
    auto& order = crossed.order[index(device)];
    return std::find_if(order.begin(), order.end(), [&](int i) {
      return to_string(crossed.work[index(i)].instruction) == name;
    });
  };
  REQUIRE(place(0, "SF0.1") < place(0, "RB0.0"));
  const auto receive = place(1, "RF1.1"), send = place(1, "SB1.0");
  REQUIRE(receive < send);
  std::rotate(receive, receive + 1, send + 1);
  const Costs costs = uniform(program, chunk_costs(forward_time, backward_time));
  CHECK_NOTHROW(simulate_events(program, costs, {.policy = LinkPolicy::in_order}));
  CHECK_THROWS_WITH(
      simulate_events(crossed, costs, {.policy = LinkPolicy::in_order}),
      ContainsSubstring("SF0.1 on device 0, which stands in line behind SB1.0 on device 1") &&
          ContainsSubstring("SB1.0 on device 1, which stands in line behind SF0.1 on device 0"));
  const Environment eager{.policy = LinkPolicy::in_order, .protocol = Protocol::eager};
  CHECK_NOTHROW(simulate_events(crossed, costs, eager));
}

TEST_CASE("link policies and protocols have names") {
  for (const LinkPolicy policy : policies) CHECK(read_link_policy(to_string(policy)) == policy);
  CHECK_THROWS_WITH(read_link_policy("blocking"), ContainsSubstring("blocking-pair"));
  CHECK(read_protocol("credit") == Protocol::credit);
  CHECK(read_sharing("fifo") == Sharing::fifo);
}
