#include "simulator/engines/events.hpp"

#include <map>
#include <tuple>

#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

using Interval = std::pair<Duration, Duration>;

/// When this was done, on this device.
Interval interval_of(const Timeline& timeline, int device, const std::string& instruction) {
  for (const Span& span : timeline.spans) {
    if (span.device == device && to_string(span.instruction) == instruction) {
      return {span.start, span.end};
    }
  }
  FAIL("no " << instruction << " on device " << device);
  return {};
}

Program gpipe_of(int devices, int microbatches, const LowerOptions& options = {}) {
  return lower(gpipe({.devices = devices, .microbatches = microbatches}), options);
}

/// What a device computes in [first, end), in thousandths of nanoseconds at full speed: by the
/// definition, nanosecond by nanosecond.
std::int64_t computed(const Timeline& timeline, const Environment& environment, int device,
                      Duration first, Duration end) {
  std::int64_t sum = 0;
  for (Duration now = first; now < end; now += 1ns) {
    std::array<bool, lanes.size()> active{};
    for (const Span& span : timeline.spans) {
      if (span.device != device || now < span.start || now >= span.end) continue;
      active[static_cast<std::size_t>(span.lane)] = true;
    }
    int speed = 1000;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      if (active[lane]) speed -= environment.slow_down[lane];
    }
    for (const Stop& stop : environment.stops) {
      if (stop.device == device && now >= stop.at && now < stop.at + *stop.time) speed = 0;
    }
    sum += speed;
  }
  return sum;
}

/// A stop long after everything: all compute is watched, and nothing changes.
Environment watched() {
  return {.stops = {{.device = 0, .at = 1h, .time = 1s}}};
}

}  // namespace

TEST_CASE("events: without contention, random programs run as simulate says, memory included",
          "[seconds]") {
  Random random(11);
  int same = 0;
  for (int round = 0; round < 1'000; ++round) {
    const auto [program, costs] = random_case(random);
    if (simulate_events(program, costs, {}) == simulate(program, costs)) ++same;
  }
  CHECK(same == 1'000);
}

TEST_CASE("events: 10'000 random programs without memory run as simulate says", "[seconds]") {
  Random random(10);
  int same = 0;
  for (int round = 0; round < 10'000; ++round) {
    const auto [program, costs] = plain_random_case(random);
    if (simulate_events(program, costs, {}) == simulate(program, costs)) ++same;
  }
  CHECK(same == 10'000);
}

TEST_CASE("events: every schedule of the table runs as simulate says", "[seconds]") {
  for (const ScheduleKind& kind : schedule_kinds) {
    for (const ScheduleShape& shape : legal_shapes(kind, 3)) {
      CAPTURE(kind.name, shape.devices, shape.microbatches, shape.virtual_stages);
      const Program program = lower(kind.generate(shape));
      Random random(static_cast<unsigned>(shape.devices * 100 + shape.microbatches));
      const Costs costs = random_costs(random, program);
      CHECK(simulate_events(program, costs, {}) == simulate(program, costs));
    }
  }
}

TEST_CASE("events: iterations follow each other as simulate says, with and without a barrier",
          "[seconds]") {
  Random random(12);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const auto [program, costs] = random_case(random);
    for (const bool barrier : {true, false}) {
      const SimulateOptions options{.iterations = 3, .barrier = barrier};
      CHECK(simulate_events(program, costs, {}, options) == simulate(program, costs, options));
    }
  }
}

TEST_CASE("events: stops, limits and factors that change nothing leave simulate's timeline") {
  Random random(13);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const auto [program, costs] = random_case(random);
    Environment environment = watched();
    environment.memory_limits = program.arena;
    environment.factors.work.assign(program.work.size(), 1'000'000);
    environment.factors.device.assign(program.order.size(), 1'000'000);
    environment.factors.channel.assign(program.channels.size(), 1'000'000);
    const EventRun run = run_events(program, costs, environment);
    CHECK(run.timeline == simulate(program, costs));
    CHECK(run.waiting_for_memory == std::vector<Duration>(program.order.size(), Duration{0}));
    CHECK(run.stranded.empty());
  }
}

TEST_CASE("events: compute is slower while a message is under way, exactly as long") {
  // Device 0 sends F0's result in [10, 14), at half its speed: of F1, 2 are done by then.
  const Program program = gpipe_of(2, 2);
  const Costs costs = uniform(program, {.forward = 10ns, .backward = 0ns}, 4ns);
  Environment environment;
  environment.slow_down[static_cast<std::size_t>(Lane::send)] = 500;
  const Timeline timeline = simulate_events(program, costs, environment);
  CHECK(interval_of(timeline, 0, "F0.1") == Interval{10ns, 22ns});
  CHECK(interval_of(timeline, 1, "F1.0") == Interval{14ns, 24ns});  // receives are free

  // Both cost a third: device 1 loses it in [22, 26), when F1 arrives.
  environment.slow_down = {0, 333, 333, 0};
  const Timeline thirds = simulate_events(program, costs, environment);
  // 4 × 0.667 = 2.668 done, 7.332 left, and time is whole.
  CHECK(interval_of(thirds, 0, "F0.1") == Interval{10ns, 22ns});
  // F0 runs [14, 22) freely, then its last 2 take 2 / 0.667 = 2.998….
  CHECK(interval_of(thirds, 1, "F1.0") == Interval{14ns, 25ns});
}

TEST_CASE("events: slowed and stopped compute takes what its speeds add up to, to the nanosecond") {
  Random random(14);
  for (int round = 0; round < 60; ++round) {
    const auto [program, costs] = random_case(random, {}, 12);
    Environment environment;
    environment.slow_down = {0, random.below(400), random.below(300), random.below(300)};
    for (int stop = random.below(3); stop > 0; --stop) {
      environment.stops.push_back({.device = random.below(program.devices),
                                   .at = Duration{random.below(100)},
                                   .time = Duration{random.below(50)}});
    }
    const Timeline timeline = simulate_events(program, costs, environment);
    REQUIRE(timeline.spans.size() == program.work.size());
    const Timeline free = simulate(program, costs);
    CHECK(step_time(timeline) >= step_time(free));
    // What each instruction takes at full speed.
    std::map<std::tuple<int, Instruction>, Duration> full;
    for (const Span& span : free.spans) full[{span.device, span.instruction}] = span.time();
    for (const Span& span : timeline.spans) {
      if (span.lane != Lane::compute) continue;
      CAPTURE(round, span.device, to_string(span.instruction));
      const auto needed = 1000 * full.at({span.device, span.instruction}).count();
      const auto done = [&](Duration end) {
        return computed(timeline, environment, span.device, span.start, end);
      };
      CHECK(done(span.end) >= needed);
      if (span.end > span.start) CHECK(done(span.end - 1ns) < needed);
    }
  }
}

TEST_CASE("events: less memory never helps, and no forward starts beyond its limit") {
  Random random(15);
  int waited = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const auto [program, costs] = random_case(random);
    const Timeline free = simulate(program, costs);
    Environment environment;
    for (const MemoryPeak& peak : memory_peaks(free)) {
      environment.memory_limits.push_back(peak.bytes * random.between(90, 100) / 100);
    }
    try {
      const EventRun run = run_events(program, costs, environment);
      CHECK(step_time(run.timeline) >= step_time(free));
      for (const Duration time : run.waiting_for_memory) waited += time > Duration{0} ? 1 : 0;
      for (const Span& span : run.timeline.spans) {
        // At a start that nothing else shares, the device holds what it did before and the
        // forward's.
        const auto& samples = run.timeline.memory[index(span.device)];
        const auto shares_start = [&](const Span& other) {
          return &other != &span && other.device == span.device &&
                 (other.start == span.start || other.end == span.start);
        };
        if (span.instruction.op != Op::forward ||
            std::any_of(run.timeline.spans.begin(), run.timeline.spans.end(), shares_start)) {
          continue;
        }
        for (const MemorySample& sample : samples) {
          if (sample.time != span.start) continue;
          CHECK(total(sample.use) <= environment.memory_limits[index(span.device)]);
        }
      }
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::check);
      CHECK_THAT(error.message(), ContainsSubstring("memory"));
    }
  }
  CHECK(waited > 0);
}

TEST_CASE("events: a device that stops goes on where it was") {
  const Program program = gpipe_of(2, 2);
  const Costs costs = uniform(program, {.forward = 10ns, .backward = 20ns}, 3ns);
  const Timeline timeline = simulate_events(
      program, costs, {.stops = {{.device = 0, .at = 4ns, .time = 5ns}, {1, 28ns, 100ns}}});
  CHECK(interval_of(timeline, 0, "F0.0") == Interval{0ns, 15ns});
  // Its message, and the one after it, arrive though device 1 has stopped by then.
  CHECK(interval_of(timeline, 1, "F1.0") == Interval{18ns, 28ns});
  CHECK(interval_of(timeline, 1, "RF1.1") == Interval{25ns, 28ns});
  CHECK(interval_of(timeline, 1, "F1.1") == Interval{128ns, 138ns});

  const Timeline late = simulate_events(program, costs, {.stops = {{0, 0ns, 7ns}, {0, 7ns, 3ns}}});
  CHECK(interval_of(late, 0, "F0.0") == Interval{10ns, 20ns});
}

TEST_CASE("events: after a stop for good, who waits for whom") {
  const Program program = gpipe_of(3, 2);
  const Costs costs = uniform(program, {.forward = 10ns, .backward = 20ns}, 3ns);
  const EventRun run =
      run_events(program, costs, {.stops = {{.device = 1, .at = 20ns, .time = {}}}});
  // Device 0 has done its forwards; F0 was half done on device 1; device 2 has got nothing.
  CHECK(interval_of(run.timeline, 0, "F0.1") == Interval{10ns, 20ns});
  for (const Span& span : run.timeline.spans) CHECK(span.end <= 23ns);
  CHECK(run.stranded ==
        std::vector<std::string>{
            "RB0.0 on device 0, which waits for SB1.0 on device 1, which waits for B1.0 on device "
            "1, which waits for F1.0 on device 1, which has stopped",
            "F1.0 on device 1, which has stopped",
            "RF2.0 on device 2, which waits for SF1.0 on device 1, which waits for F1.0 on device "
            "1, which has stopped"});
  // Devices may have other numbers where they are.
  const EventRun named =
      run_events(program, costs,
                 {.stops = {{.device = 1, .at = 20ns, .time = {}}}, .device_names = {4, 6, 9}});
  CHECK(named.stranded[1] == "F1.0 on device 6, which has stopped");
}

TEST_CASE("events: a forward waits until there is memory for its result") {
  // Device 0 keeps each result until it is sent, which takes 50: F2 waits for the end of the first.
  LowerOptions options;
  options.memory = {{{.output = 100}}, {{.output = 0}}};
  const Program program = gpipe_of(2, 3, options);
  Costs costs = uniform(program, {.forward = 10ns, .backward = 10ns});
  costs.channels[0].occupancy = 50ns;
  Environment environment{.memory_limits = {200, 1000}};
  const EventRun run = run_events(program, costs, environment);
  CHECK(interval_of(run.timeline, 0, "F0.1") == Interval{10ns, 20ns});
  CHECK(interval_of(run.timeline, 0, "F0.2") == Interval{60ns, 70ns});
  CHECK(run.waiting_for_memory == std::vector<Duration>{40ns, 0ns});
  CHECK(memory_peaks(run.timeline)[0].bytes == 200);
  CHECK(memory_peaks(simulate(program, costs))[0].bytes == 300);

  environment.memory_limits = {99, 1000};
  CHECK_THROWS_WITH(simulate_events(program, costs, environment),
                    ContainsSubstring("F0.0 on device 0"));
}

TEST_CASE("events: GPipe with memory for two of three microbatches is a cycle") {
  LowerOptions options;
  options.memory = {{{.saved = 100}}};
  const Program program = gpipe_of(1, 3, options);
  const Costs costs = uniform(program, {.forward = 10ns, .backward = 10ns});
  CHECK_THROWS_WITH(simulate_events(program, costs, {.memory_limits = {200}}),
                    "simulate: devices wait for each other: F0.2 on device 0, which needs memory "
                    "that is freed by "
                    "B0.0 on device 0, which comes after F0.2 on device 0");
}

TEST_CASE(
    "events: a fused pair starts and ends together, and takes what its forward's chunk says") {
  Program program = gpipe_of(1, 2);  // F0.0 F0.1 B0.0 B0.1
  const auto work = [&](const Instruction& instruction) {
    int i = 0;
    while (program.work[index(i)].instruction != instruction) ++i;
    return i;
  };
  const int forward = work({Op::forward, 0, 1}), backward = work({Op::backward, 0, 0});
  program.work[index(forward)].fused_with = backward;
  program.work[index(backward)].fused_with = forward;
  for (const std::optional<Duration> fused : {std::optional<Duration>{}, std::optional{25ns}}) {
    const Costs costs = uniform(program, {.forward = 10ns, .backward = 20ns, .fused = fused});
    const Timeline timeline = simulate_events(program, costs, {});
    const Duration end = 10ns + fused.value_or(30ns);
    CHECK(interval_of(timeline, 0, "F0.1") == Interval{10ns, end});
    CHECK(interval_of(timeline, 0, "B0.0") == Interval{10ns, end});
    CHECK(interval_of(timeline, 0, "B0.1") == Interval{end, end + 20ns});
  }
}

TEST_CASE("events: factors multiply and round once, halves up") {
  const Program program = gpipe_of(2, 1);
  const Costs costs = uniform(program, {.forward = 5ns, .backward = 10ns}, 5ns);
  Environment environment;
  environment.factors.work.assign(program.work.size(), 1'100'000);
  environment.factors.device = {1'000'000, 2'000'000};
  environment.factors.channel.assign(program.channels.size(), 900'000);
  const Timeline timeline = simulate_events(program, costs, environment);
  CHECK(interval_of(timeline, 0, "F0.0") == Interval{0ns, 6ns});    // 5.5
  CHECK(interval_of(timeline, 1, "RF1.0") == Interval{6ns, 11ns});  // 4.5
  CHECK(interval_of(timeline, 1, "F1.0") == Interval{11ns, 22ns});  // 11
  CHECK(interval_of(timeline, 1, "B1.0") == Interval{22ns, 44ns});  // 22
}

TEST_CASE("events: an environment that does not fit the program is refused") {
  const Program program = gpipe_of(2, 1);
  const Costs costs = uniform(program, {.forward = 1ns});
  const auto refuses = [&](const Environment& environment, const std::string& sentence) {
    CHECK_THROWS_WITH(simulate_events(program, costs, environment), ContainsSubstring(sentence));
  };
  refuses({.buffers = 0}, "at least one buffer");
  refuses({.slow_down = {0, 500, 500, 0}}, "fewer than 1000 in all");
  refuses({.slow_down = {0, -1, 0, 0}}, "expected 0 or more");
  refuses({.memory_limits = {1}}, "1 memory limits for 2 devices");
  refuses({.stops = {{.device = 2}}}, "device 2 cannot stop; the program has 2");
  refuses({.factors = {.work = {1}}}, "factors of work: a list of 1");
  refuses({.network = {.links = {{0}}}}, "link 0 has no bandwidth");
  refuses({.network = {.channels = {{{3}, 10}, {}}}}, "crosses link 3; the network has 0");
  Costs wrong = costs;
  wrong.groups.clear();
  wrong.channels.clear();
  CHECK_THROWS_WITH(simulate_events(program, wrong, {}), ContainsSubstring("a list of 0"));
}
