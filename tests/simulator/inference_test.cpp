// Forward-only schedules: prefill, and decoding that goes round.

#include <map>

#include "profiles/error.hpp"
#include "simulator/checks/check.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/check_reports.hpp"
#include "tests/simulator/mutations.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Schedule decoding(int devices, int batches, int steps) {
  return inference({.devices = devices, .microbatches = batches, .decode_steps = steps});
}

ChunkCosts forward_only(Duration forward) {
  return {.forward = forward};
}

}  // namespace

TEST_CASE("prefill takes (m + p - 1) forwards, and its messages") {
  for (const Shape& shape : plain_shapes()) {
    const auto [p, m] = shape;
    CAPTURE(p, m);
    const Schedule schedule = decoding(p, m, 0);
    CHECK(step_time(run(schedule, forward_only(10ms))) == (m + p - 1) * 10ms);
    CHECK(step_time(run(schedule, forward_only(10ms), 3ms)) == (m + p - 1) * 10ms + (p - 1) * 3ms);
    CHECK(peak_in_flight(schedule) == std::vector<int>(index(p), 1));
  }
}

TEST_CASE("a batch's next token takes a round, or as long as the others need") {
  constexpr int steps = 3;
  for (int p = 1; p <= 16; ++p) {
    for (const int m : {1, 2, p, p + 1, 2 * p + 1}) {
      for (const Duration latency : {0ms, 3ms}) {
        CAPTURE(p, m, latency.count());
        const Timeline timeline = run(decoding(p, m, steps), forward_only(10ms), latency);
        std::map<int, Duration> starts;
        for (const Span& span : timeline.spans) {
          if (span.device == 0 && span.instruction.op == Op::forward) {
            starts[span.instruction.microbatch] = span.start;
          }
        }
        REQUIRE(starts.size() == index(m * (steps + 1)));
        const Duration round = p == 1 ? 10ms : p * (10ms + latency);
        const Duration period = std::max<Duration>(round, m * 10ms);
        for (int k = m; k + m < m * (steps + 1); ++k) CHECK(starts[k + m] - starts[k] == period);
      }
    }
  }
}

TEST_CASE("a token goes from the last stage to the first as a message") {
  const Program program = lower(decoding(2, 1, 1));
  CHECK(order_text(program, 0) == "F0.0 SF0.0 RF0.0 F0.1 SF0.1");
  CHECK(order_text(program, 1) == "RF1.0 F1.0 SF1.0 RF1.1 F1.1");
  CHECK(lower(decoding(1, 3, 2)).channels.empty());
  CHECK(first_finding(program) == "safe");
  for (int p = 1; p <= 6; ++p) {
    for (const int m : {1, 2, p, 3 * p}) {
      const Program circle = lower(decoding(p, m, 3));
      CAPTURE(p, m);
      CHECK(first_finding(circle) == "safe");
      // Each boundary in each pass, and the way back but for the last pass.
      CHECK(messages_sent(simulate(circle, uniform(circle, forward_only(1ms))),
                          Op::send_activation)[index(p - 1)] == (p == 1 ? 0 : 3 * m));
    }
  }
}

TEST_CASE("random replicas decode safely under both policies") {
  Random random(11);
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    const Schedule schedule =
        decoding(random.between(1, 4), random.between(1, 4), random.between(0, 3));
    LowerOptions options = random_options(random, schedule);
    const Program program = lower(schedule, options);
    CHECK(first_finding(program) == "safe");
    const Costs costs = random_costs(random, program);
    const std::vector<MemoryPeak> peaks = memory_peaks(simulate(program, costs));
    for (std::size_t device = 0; device < peaks.size(); ++device) {
      CHECK(peaks[device].bytes <= program.arena[device]);
    }
  }
}

TEST_CASE("without backwards nothing is kept but the input, for as long as the forward") {
  LowerOptions options;
  options.memory.assign(2, {ChunkMemory{.parameters = 1'000'000,
                                        .gradients = 2'000'000,
                                        .optimizer = 4'000'000,
                                        .saved = 100'000,
                                        .input = 1'000,
                                        .output = 100,
                                        .workspace = 10}});
  const Timeline timeline = run(decoding(2, 4, 0), forward_only(10ns), 0ns, options);
  for (const MemoryPeak& peak : memory_peaks(timeline)) CHECK(peak.bytes % 100'000 >= 1'010);
  CHECK(memory_peaks(timeline)[1].bytes == 1'101'010);
  CHECK(peak_in_flight(timeline) == std::vector{1, 1});
}

TEST_CASE("inference refuses what it has no use for, and the others decode steps") {
  CHECK_THROWS_WITH(decoding(2, 4, -1), ContainsSubstring("at least 0, not -1"));
  CHECK_THROWS_WITH(decoding(2, 10'000'000, 2), ContainsSubstring("at most 10000000"));
  for (const ScheduleKind& kind : schedule_kinds) {
    CAPTURE(std::string(kind.name));
    const ScheduleShape shape{.devices = 4,
                              .microbatches = 8,
                              .virtual_stages = fewest_virtual_stages(kind.placement),
                              .decode_steps = 1};
    CHECK(generated(kind, shape).has_value() == (kind.name == "inference"));
  }
  Schedule trained = decoding(1, 1, 0);
  trained.devices[0].push_back({Op::backward, 0, 0});
  CHECK_THROWS_WITH(validate(trained), ContainsSubstring("without training there is only F"));
  Schedule circle = gpipe({.devices = 1, .microbatches = 2});
  circle.feedback = 1;
  CHECK_THROWS_WITH(validate(circle), ContainsSubstring("no output can be the next input"));
}

// --- Mutations: each is caught by its rule ------------------------------------------------------

TEST_CASE("check: a pass must wait for the token it continues") {
  const Program program = lower(decoding(3, 2, 2));
  Program early = program;
  drop_wait(early, find_work(early, "F0.3"), find_work(early, "RF0.1"));
  CHECK(first_finding(early) ==
        "order: F0.3 on device 0 (stage 0) may start before its input has arrived: nothing makes "
        "it wait for RF0.1 on device 0 (stage 0)");
  Program alone = lower(decoding(1, 2, 2));
  drop_wait(alone, find_work(alone, "F0.3"), find_work(alone, "F0.1"));
  CHECK(first_finding(alone) == "safe");  // the device's own order says it, too

  Program elsewhere = program;
  for (Channel& channel : elsewhere.channels) {
    if (channel.from == 2) channel.to = 1;
  }
  CHECK_THAT(first_finding(elsewhere), ContainsSubstring("but not to the next stage"));
}

TEST_CASE("check: nothing goes back, and nothing is updated, without training") {
  Program program = lower(decoding(2, 2, 0));
  Program update = program;
  update.work[index(find_work(program, "F1.1"))].instruction.op = Op::update;
  CHECK_THAT(first_finding(update), ContainsSubstring("where no update is due"));
  Program back = program;
  back.work[index(find_work(program, "F1.1"))].instruction.op = Op::backward;
  CHECK_THAT(first_finding(back), ContainsSubstring("the program does not train"));
  Program policy = program;
  policy.weights = WeightPolicy::stashing;
  policy.update_every = {1};
  CHECK_THAT(first_finding(policy), ContainsSubstring("structure: "));
}

TEST_CASE("check: forwards alone are called that") {
  const CheckReport report = check(lower(decoding(2, 3, 0)));
  CHECK(proves(report, "2 of 2 stages: 3 of 3 microbatches forward"));
  CHECK(proves(report, "weight versions: nothing changes them"));
}
