// Schedules of several copies of the model, of fused pairs, and of pieces of sequences: closed
// forms, and what they refuse.

#include "profiles/error.hpp"
#include "simulator/checks/check.hpp"
#include "simulator/schedules/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

ScheduleShape shape_of(int devices, int microbatches, int virtual_stages = 1) {
  return {.devices = devices, .microbatches = microbatches, .virtual_stages = virtual_stages};
}

std::string refusal(Schedule (*generate)(const ScheduleShape&), const ScheduleShape& shape) {
  try {
    generate(shape);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    return error.message();
  }
  return "";
}

/// Chimera's on device r of p, for two pipes.
int chimera_peak(int p, int r) {
  return p / 2 + 1 + std::min(r, p - 1 - r);
}

}  // namespace

TEST_CASE("chimera takes m(f + b) + (p - 2)(f + k(b - f)), k = m / p") {
  for (int p = 2; p <= 16; p += 2) {
    for (const int k : {1, 2, 3, 5}) {
      for (const Duration b : {10ms, 13ms, 20ms, 45ms}) {
        CAPTURE(p, k, b.count());
        const Duration f = 10ms;
        const int m = k * p;
        const Schedule schedule = chimera(shape_of(p, m));
        const Timeline timeline = run(schedule, chunk_costs(f, b));
        CHECK(step_time(timeline) == m * (f + b) + (p - 2) * (f + k * (b - f)));
        const auto peaks = per_device(p, [&](int r) { return chimera_peak(p, r); });
        CHECK(peak_in_flight(timeline) == peaks);
        CHECK(peak_in_flight(schedule) == peaks);
        CHECK(message_count(timeline) == 2 * m * (p - 1));
        CHECK(busy_times(timeline) == std::vector<Duration>(index(p), m * (f + b)));
      }
    }
  }
}

TEST_CASE("more pipes leave chimera a bubble of 2p / q - 2 slots") {
  for (const auto& [p, q] : {std::pair{4, 4}, {6, 6}, {8, 4}, {8, 8}, {12, 4}, {12, 6}, {16, 8}}) {
    for (const int k : {1, 2, 3}) {
      CAPTURE(p, q, k);
      ScheduleShape shape = shape_of(p, k * p);
      shape.pipes = q;
      const Schedule schedule = chimera(shape);
      CHECK(schedule.stages == q * p);
      CHECK(schedule.microbatches * q == k * p);
      const Timeline timeline = run(schedule, chunk_costs(10ms, 10ms));
      CHECK(step_time(timeline) == (2 * k * p + 2 * p / q - 2) * 10ms);
      CHECK(message_count(timeline) == 2 * k * p * (p - 1));
    }
  }
}

TEST_CASE("chimera drops no microbatch where the released generator does") {
  for (const auto& [p, m] : {std::pair{2, 4}, {2, 6}, {2, 8}, {6, 18}, {8, 24}, {10, 30}}) {
    CAPTURE(p, m);
    const Schedule schedule = chimera(shape_of(p, m));
    CHECK_NOTHROW(validate(schedule));
    for (const auto& order : schedule.devices) {
      const auto forwards = std::count_if(
          order.begin(), order.end(), [](const Instruction& it) { return it.op == Op::forward; });
      CHECK(forwards == m);
    }
  }
}

TEST_CASE(
    "forward doubling takes m(f + b) + (p - 2)(f + b) / 2 up to b = 2f, in twice the memory") {
  for (int p = 2; p <= 16; p += 2) {
    for (const int k : {1, 2, 3}) {
      for (const Duration b : {10ms, 14ms, 20ms}) {
        CAPTURE(p, k, b.count());
        const Duration f = 10ms;
        const int m = 2 * k * p;
        const Timeline timeline = run(chimera_doubling(shape_of(p, m)), chunk_costs(f, b));
        CHECK(step_time(timeline) == m * (f + b) + (p - 2) * (f + b) / 2);
        CHECK(peak_in_flight(timeline) ==
              per_device(p, [&](int r) { return 2 * chimera_peak(p, r); }));
        CHECK(message_count(timeline) == 2 * m * (p - 1));
      }
    }
  }
}

TEST_CASE("forward doubling beats direct concatenation, and the paper's (p - 2)b at b = 2f") {
  for (const int p : {4, 6, 8}) {
    for (const int k : {1, 2, 3}) {
      CAPTURE(p, k);
      const int m = 2 * k * p;
      const Schedule doubled = chimera_doubling(shape_of(p, m));
      const Schedule direct = chimera(shape_of(p, m));
      const ChunkCosts costs = chunk_costs(10ms, 20ms);
      const Duration ours = step_time(run(doubled, costs));
      CHECK(ours <= m * 30ms + (p - 2) * 20ms);
      CHECK(ours < step_time(run(direct, costs)));
    }
  }
}

TEST_CASE(
    "backward halving takes m(f + b) + (p - 2)(f + b) / 4 up to b = 2f, in chimera's memory") {
  for (int p = 2; p <= 16; p += 2) {
    for (const int k : {1, 2, 3}) {
      for (const Duration b : {12ms, 16ms, 24ms}) {
        CAPTURE(p, k, b.count());
        const Duration f = 12ms;
        const int m = k * p;
        const Schedule schedule = chimera_halving(shape_of(p, m));
        REQUIRE(schedule.parts == 2);
        const Timeline timeline = run(schedule, chunk_costs(f / 2, b / 2));
        CHECK(step_time(timeline) == m * (f + b) + (p - 2) * (f + b) / 4);
        CHECK(peak_in_flight(timeline) ==  // in halves
              per_device(p, [&](int r) { return 2 * chimera_peak(p, r); }));
        CHECK(busy_times(timeline) == std::vector<Duration>(index(p), m * (f + b)));
      }
    }
  }
}

TEST_CASE("DualPipe's bubble is (p/2 - 1)(F&B + f - b + max(0, i - w)), not the report's") {
  struct Times {
    Duration f, i, w;
  };
  for (const Times& t : {Times{10ms, 10ms, 10ms}, Times{10ms, 12ms, 8ms}, Times{10ms, 8ms, 12ms},
                         Times{12ms, 12ms, 10ms}}) {
    const auto [f, i, w] = t;
    const Duration b = i + w;
    for (int p = 2; p <= 16; p += 2) {
      for (const int m : {2 * p, 2 * p + 2, 3 * p, 5 * p + 4}) {
        if ((p / 2 - 1) * (i - f) >= f || m % 2 != 0) continue;
        CAPTURE(p, m, f.count(), i.count(), w.count());
        const Timeline timeline = run(dualpipe(shape_of(p, m)), split_costs(f, i, w));
        const Duration bubble = (p / 2 - 1) * ((f + b) + f - b + std::max(Duration{0}, i - w));
        CHECK(step_time(timeline) == m * (f + b) + bubble);
        CHECK(peak_in_flight(timeline, false) == std::vector<int>(index(p), p + 1));
        CHECK(message_count(timeline) == 2 * m * (p - 1));
        const Duration report = (p / 2 - 1) * ((f + b) + b - 3 * w);
        if (p > 2) CHECK((report == bubble) == (f == i && i >= w));
      }
    }
  }
  // F = 10, I = 12, W = 8, p = 4: 24, where the report says 26; I = 8, W = 12: 20, not 14.
  const auto bubble_of = [](Duration i, Duration w) {
    return step_time(run(dualpipe(shape_of(4, 8)), split_costs(10ms, i, w))) - 8 * 30ms;
  };
  CHECK(bubble_of(12ms, 8ms) == 24ms);
  CHECK(bubble_of(8ms, 12ms) == 20ms);
}

TEST_CASE("DualPipeV's bubble is DualPipe's with p for p/2 and the costs of half a device") {
  struct Times {
    Duration f, i, w;  // of half a device
  };
  for (const Times& t : {Times{10ms, 10ms, 10ms}, Times{10ms, 8ms, 12ms}, Times{20ms, 21ms, 8ms}}) {
    const auto [f, i, w] = t;
    const Duration b = i + w;
    for (int p = 1; p <= 12; ++p) {
      for (const int m : {2 * p, 2 * p + 1, 3 * p + 2}) {
        if ((p - 1) * (i - f) >= f) continue;
        CAPTURE(p, m, f.count(), i.count(), w.count());
        const Timeline timeline = run(dualpipev(shape_of(p, m, 2)), split_costs(f, i, w));
        CHECK(step_time(timeline) ==
              2 * m * (f + b) + (p - 1) * ((f + b) + f - b + std::max(Duration{0}, i - w)));
        CHECK(peak_in_flight(timeline, false) == std::vector<int>(index(p), 2 * p + 1));
        CHECK(message_count(timeline) == 4 * m * (p - 1));
      }
    }
  }
}

TEST_CASE("Seq1F1B takes (mK + p - 1)(f + b) / K and holds min(mK, p - r - 1 + K) pieces",
          "[seconds]") {
  const Duration f = 12ms, b = 24ms;
  for (int p = 1; p <= 16; ++p) {
    for (const int m : {1, 2, 3, p, 3 * p + 1}) {
      for (const int K : {1, 2, 3, 4}) {
        CAPTURE(p, m, K);
        ScheduleShape shape = shape_of(p, m);
        shape.sequence_chunks = K;
        const Schedule schedule = seq1f1b(shape);
        const Timeline timeline = run(schedule, chunk_costs(f / K, b / K));
        CHECK(step_time(timeline) == (m * K + p - 1) * (f + b) / K);
        const auto peaks = per_device(p, [&](int r) { return std::min(m * K, p - r - 1 + K); });
        CHECK(peak_in_flight(timeline) == peaks);
        CHECK(peak_in_flight(schedule) == peaks);
        CHECK(message_count(timeline) == 2 * m * K * (p - 1));
        if (K == 1) CHECK(schedule.devices == one_f_one_b(shape_of(p, m)).devices);
      }
    }
  }
}

TEST_CASE("latency costs, at p = 8, m = 32, f = i = w = 10: the published multipliers") {
  const auto multiplier = [](const Schedule& schedule, int c) {
    const ChunkCosts costs = split_costs(20ns, 20ns, 20ns);
    const Duration plain = step_time(run(schedule, costs));
    return static_cast<double>((step_time(run(schedule, costs, Duration{2 * c})) - plain).count()) /
           (2 * c);
  };
  const Schedule dual = dualpipe(shape_of(8, 32));
  CHECK(multiplier(dual, 1) == 37);
  CHECK(multiplier(dual, 2) == 37);
  CHECK(multiplier(dual, 5) == Approx(38).margin(0.5));
  CHECK(multiplier(dual, 10) == Approx(39).margin(0.5));
  CHECK(multiplier(dual, 20) == Approx(39.5).margin(0.5));
  for (const int c : {1, 2, 5, 10, 20}) CHECK(multiplier(chimera(shape_of(8, 32)), c) == 55);
}

TEST_CASE("shapes that cannot work are refused with the constraint and the nearest legal value") {
  CHECK_THAT(refusal(chimera, shape_of(3, 6)),
             ContainsSubstring("devices must be a multiple of the 2 pipes, not 3; nearest legal "
                               "value: 2 or 4"));
  CHECK_THAT(refusal(chimera, shape_of(4, 6)), ContainsSubstring("nearest legal value: 4 or 8"));
  CHECK_THAT(refusal(chimera, shape_of(4, 2)), ContainsSubstring("nearest legal value: 4"));
  CHECK_THAT(refusal(chimera_doubling, shape_of(4, 4)),
             ContainsSubstring("must be a multiple of 8 for 4 devices, not 4; nearest legal value: "
                               "8"));
  CHECK(refusal(chimera_halving, shape_of(4, 4)).empty());
  ScheduleShape shape = shape_of(6, 6);
  shape.pipes = 3;
  CHECK_THAT(refusal(chimera, shape), ContainsSubstring("must be even, not 3; nearest legal value: "
                                                        "2 or 4"));
  shape.pipes = 4;
  CHECK_THAT(refusal(chimera, shape), ContainsSubstring("multiple of the 4 pipes, not 6; nearest "
                                                        "legal value: 4 or 8"));
  shape.pipes = 0;
  CHECK_THAT(refusal(chimera, shape), ContainsSubstring("nearest legal value: 2"));

  CHECK_THAT(refusal(dualpipe, shape_of(3, 8)), ContainsSubstring("devices must be even, not 3"));
  CHECK_THAT(refusal(dualpipe, shape_of(4, 6)), ContainsSubstring("nearest legal value: 8"));
  CHECK_THAT(refusal(dualpipe, shape_of(4, 9)), ContainsSubstring("nearest legal value: 8 or 10"));
  CHECK_THAT(refusal(dualpipev, shape_of(4, 7, 2)), ContainsSubstring("nearest legal value: 8"));
  CHECK_THAT(refusal(dualpipev, shape_of(4, 8)), ContainsSubstring("virtual stages must be 2"));

  shape = shape_of(4, 4);
  shape.sequence_chunks = 0;
  CHECK_THAT(refusal(seq1f1b, shape), ContainsSubstring("at least 1, not 0"));
}

TEST_CASE("pipes and sequence chunks are refused where nothing asks for them") {
  for (const ScheduleKind& kind : schedule_kinds) {
    CAPTURE(std::string(kind.name));
    ScheduleShape shape{.devices = 2, .microbatches = 4};
    shape.virtual_stages = fewest_virtual_stages(kind.placement);
    REQUIRE(generated(kind, shape));
    ScheduleShape pipes = shape;
    pipes.pipes = 2;
    CHECK(generated(kind, pipes).has_value() == kind.name.starts_with("chimera"));
    ScheduleShape pieces = shape;
    pieces.sequence_chunks = 2;
    CHECK(generated(kind, pieces).has_value() == (kind.name == "seq1f1b"));
  }
}
