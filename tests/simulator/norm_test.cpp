// The norm of all gradients: what waiting for it costs, what post-validation saves, and what
// `check` says when updates do not know what they should.

#include "simulator/engines/events.hpp"
#include "simulator/engines/fold.hpp"
#include "simulator/engines/steady.hpp"
#include "tests/simulator/check_reports.hpp"
#include "tests/simulator/check_settings.hpp"
#include "tests/simulator/mutations.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

constexpr GradientNorm kinds[] = {GradientNorm::none, GradientNorm::global,
                                  GradientNorm::post_validated};

/// The norm takes as long: its all-reduce, or each of its messages.
Costs with_norm(const Program& program, const ChunkCosts& chunk, Duration norm) {
  Costs costs = uniform(program, chunk);
  for (std::size_t i = 0; i < program.groups.size(); ++i) {
    if (program.groups[i].op == Op::reduce_norm) costs.groups[i] = norm;
  }
  for (std::size_t i = 0; i < program.channels.size(); ++i) {
    const Cargo cargo = program.channels[i].cargo;
    if (cargo == Cargo::norm || cargo == Cargo::validation) {
      costs.channels[i].latency = norm;
    }
  }
  return costs;
}

struct StepTimes {
  Duration step{0};
  Duration steady{0};  ///< each further iteration without a barrier
};

StepTimes times_of(const char* name, const ScheduleShape& shape, const ChunkCosts& chunk,
                   GradientNorm kind, Duration norm) {
  const Program program = lower(find_schedule(name).generate(shape), {.norm = kind});
  CHECK(first_finding(program) == "safe");
  const Costs costs = with_norm(program, chunk, norm);
  const auto steady = steady_iterations(program, costs);
  REQUIRE(steady.has_value());
  CHECK(steady->step(5) ==
        step_time(simulate_events(program, costs, {}, {.iterations = 5, .barrier = false})));
  return {step_time(simulate(program, costs)), steady->time / steady->period};
}

}  // namespace

TEST_CASE("1F1B: the norm's all-reduce is behind the last backward, and so is the chain") {
  const int p = 4, m = 8;
  ChunkCosts chunk = chunk_costs(10ms, 20ms);
  chunk.update = 5ms;
  const Duration pipeline = (m + p - 1) * 30ms;
  const auto times = [&](GradientNorm kind) {
    return times_of("1f1b", {.devices = p, .microbatches = m}, chunk, kind, 3ms);
  };
  CHECK(times(GradientNorm::none).step == pipeline + 5ms);
  CHECK(times(GradientNorm::none).steady == pipeline + 5ms);
  CHECK(times(GradientNorm::global).step == pipeline + 3ms + 5ms);
  CHECK(times(GradientNorm::global).steady == pipeline + 3ms + 5ms);
  // The first device is the last to finish, and all others hear of it, one after the other. It
  // goes on at once, and its forward reaches them later than the norm does.
  CHECK(times(GradientNorm::post_validated).step == pipeline + (p - 1) * 3ms + 5ms);
  CHECK(times(GradientNorm::post_validated).steady == pipeline + 5ms);
}

TEST_CASE("zero bubble: a norm costs the bubble, post-validation gives it back") {
  const int m = 12;
  for (const int p : {2, 4, 6}) {
    CAPTURE(p);
    ChunkCosts whole = split_costs(20ms, 20ms, 20ms), half = split_costs(20ms, 20ms, 20ms, 2);
    whole.update = 4ms;
    half.update = 2ms;
    const auto h2 = [&](GradientNorm kind, Duration norm) {
      return times_of("zb-h2", {.devices = p, .microbatches = m}, whole, kind, norm).steady;
    };
    const auto v = [&](GradientNorm kind, Duration norm) {
      return times_of("zb-v", {.devices = p, .microbatches = m, .virtual_stages = 2}, half, kind,
                      norm)
          .steady;
    };
    const Duration work = m * 60ms + 4ms;
    CHECK(h2(GradientNorm::none, 0ms) == work);
    CHECK(h2(GradientNorm::global, 3ms) == work + (p - 1) * 20ms + 3ms);
    CHECK(v(GradientNorm::none, 0ms) == work);
    CHECK(v(GradientNorm::global, 3ms) == work + (p - 1) * 10ms + 3ms);
    for (const Duration norm : {0ms, 1ms, 10ms}) {
      CAPTURE(norm.count());
      CHECK(h2(GradientNorm::post_validated, norm) == work);
      CHECK(v(GradientNorm::post_validated, norm) == work);
    }
  }
}

TEST_CASE("a norm does not keep long runs from being counted") {
  const ScheduleKind& kind = find_schedule("1f1b");
  const ScheduleShape shape{.devices = 3, .microbatches = 200};
  for (const GradientNorm norm : kinds) {
    const LowerOptions options{.norm = norm};
    const Program program = lower(kind.generate(shape), options);
    const Costs costs = with_norm(program, chunk_costs(10ms, 20ms), 3ms);
    const LongStep counted = long_step(kind, shape, costs, options);
    CHECK(counted.step == step_time(simulate(program, costs)));
    CHECK(counted.microbatches_run < 200);
  }
}

TEST_CASE("post-validation: states go forward with the gradients, back with the warm-up") {
  const Program program =
      lowered({.devices = 3, .microbatches = 3, .norm = GradientNorm::post_validated});
  CHECK(first_finding(program) == "safe");
  CHECK_THAT(order_text(program, 0), ContainsSubstring("RV0.2") && ContainsSubstring("SN0.2"));
  CHECK_THAT(order_text(program, 1),
             ContainsSubstring("RV1.2 SV1.2") && ContainsSubstring("RN1.2 SN1.2 U1.2"));
  CHECK_THAT(order_text(program, 2),
             ContainsSubstring("SV2.2 B2.0") && ContainsSubstring("RN2.2 U2.2"));
  for (const Channel& channel : program.channels) {
    if (channel.cargo == Cargo::norm) CHECK((channel.bytes == 8 && channel.rows == IndexRange{}));
  }
}

TEST_CASE("norms over replicas: whole gradients count once, shards are added up first") {
  for (const Sharding sharding : {Sharding::none, Sharding::zero1}) {
    for (const GradientNorm kind : kinds) {
      const Program program = lowered({.devices = 2,
                                       .microbatches = 4,
                                       .replicas = {2, 2},
                                       .rows = 2,
                                       .sharding = sharding,
                                       .norm = kind});
      CHECK(first_finding(program) == "safe");
      std::vector<std::vector<int>> sums;
      for (const Group& group : program.groups) {
        if (group.op == Op::reduce_norm) sums.push_back(group.chunks);
      }
      std::vector<std::vector<int>> expected;
      if (kind == GradientNorm::global) expected = {{0, 1, 2, 3}};
      if (kind == GradientNorm::post_validated && sharding == Sharding::zero1) {
        expected = {{0, 1}, {2, 3}};
      }
      CHECK(sums == expected);
      // Alike as they are, replicas fold.
      const Costs costs = with_norm(program, chunk_costs(10ms, 20ms), 3ms);
      const auto folded = fold(program, costs);
      REQUIRE(folded.has_value());
      const SimulateOptions often{.iterations = 4, .barrier = false};
      CHECK(step_time(simulate(folded->program, folded->costs, often)) ==
            step_time(simulate(program, costs, often)));
    }
  }
}

TEST_CASE("check: updates that do not wait for the norm") {
  const Setting setting{.devices = 3, .microbatches = 3, .norm = GradientNorm::global};
  const Program program = lowered(setting);
  const int update = find_work(program, "U1.2"), norm = find_work(program, "N1.2");
  SECTION("one update") {
    Program mutant = program;
    drop_wait(mutant, update, norm);
    CHECK_THAT(first_finding(mutant),
               ContainsSubstring("norm: U1.2 on device 1 (stage 1) may start before the squares of "
                                 "the gradients of stage 0 are known to its device"));
  }
  SECTION("one that adds up too early") {
    Program mutant = program;
    drop_wait(mutant, norm, find_work(program, "B1.2"));
    CHECK_THAT(first_finding(mutant),
               ContainsSubstring("norm: ") && ContainsSubstring("gradients of stage 1"));
  }
  SECTION("one that is left out") {
    Program mutant = program;
    for (Group& group : mutant.groups) std::erase(group.chunks, 2);
    mutant = without(mutant, find_work(program, "N2.2"));
    CHECK_THAT(all_messages(check(mutant)), ContainsSubstring("gradients of stage 2"));
  }
  SECTION("a norm that nobody asked for") {
    Program mutant = program;
    mutant.norm = GradientNorm::none;
    CHECK_THAT(first_finding(mutant), ContainsSubstring("is about a norm that nothing waits for"));
  }
  SECTION("no norm where one is promised") {
    Program mutant = lowered({.devices = 3, .microbatches = 3});
    mutant.norm = GradientNorm::global;
    CHECK_THAT(first_finding(mutant), ContainsSubstring("norm: U"));
  }
}

TEST_CASE("check: updates and validations that do not wait for the devices before") {
  const Program program =
      lowered({.devices = 3, .microbatches = 3, .norm = GradientNorm::post_validated});
  const auto dropped = [&](const char* work, const char* on) {
    Program mutant = program;
    drop_wait(mutant, find_work(program, work), find_work(program, on));
    return all_messages(check(mutant));
  };
  CHECK_THAT(dropped("U1.2", "RN1.2"), ContainsSubstring("update by different parts of the norm"));
  CHECK_THAT(dropped("U2.2", "RN2.2"), ContainsSubstring("update by different parts of the norm"));
  CHECK_THAT(dropped("SN1.2", "RN1.2"), ContainsSubstring("no device ever knows the whole norm") ||
                                            ContainsSubstring("different parts of the norm"));
  CHECK_THAT(dropped("SN0.2", "B0.2"), ContainsSubstring("norm: "));
  Program late = program;
  drop_wait(late, find_work(late, "B0.0"), find_work(late, "RV0.2"));
  CHECK(first_finding(late) == "safe");  // it is received before the gradient is
  swap_in_order(late, find_work(late, "RV0.2"), find_work(late, "RB0.0"));
  CHECK_THAT(all_messages(check(late)),
             ContainsSubstring("norm: B0.0 on device 0 (stage 0) may start before the update of "
                               "the step before is validated"));
  CHECK_THAT(dropped("SV1.2", "RV1.2"), ContainsSubstring("B0.0 on device 0 (stage 0) may start"));
  CHECK_THAT(dropped("SV2.2", "F2.0"), ContainsSubstring("B1.0 on device 1 (stage 1) may start"));
}

TEST_CASE("a norm needs a flush") {
  const Schedule schedule =
      find_schedule("pipedream-2bw").generate({.devices = 2, .microbatches = 4});
  for (const GradientNorm kind : {GradientNorm::global, GradientNorm::post_validated}) {
    CHECK_THROWS_WITH(lower(schedule, {.norm = kind}),
                      ContainsSubstring("updates each stage at a time of its own"));
  }
}

TEST_CASE("names of shardings and norms read back") {
  for (const GradientNorm kind : kinds) CHECK(read_gradient_norm(to_string(kind)) == kind);
  for (const Sharding sharding : shardings) {
    CHECK(read_sharding(to_string(sharding)) == sharding);
  }
  CHECK_THROWS_WITH(read_sharding("zero-1"), ContainsSubstring("did you mean \"zero1\""));
}
