// Schedules of many microbatches by programs of few: every figure as of the whole.

#include "simulator/engines/repeats.hpp"

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "simulator/analyses/attribution.hpp"
#include "simulator/analyses/critical_path.hpp"
#include "simulator/analyses/jitter.hpp"
#include "simulator/analyses/lower_bounds.hpp"
#include "simulator/analyses/sensitivity.hpp"
#include "simulator/checks/check.hpp"
#include "simulator/engines/compiled.hpp"
#include "simulator/engines/events.hpp"
#include "simulator/engines/steady.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// The same schedule, whole and shortened.
struct Pair {
  Program whole, few;
};

std::optional<Pair> pair_of(const ScheduleKind& kind, const ScheduleShape& shape,
                            const LowerOptions& options = {}) {
  const auto shorter = shortened(kind, shape, passes_of(shape) / 3, options);
  if (!shorter) return {};
  Pair pair{lower(kind.generate(shape), options), lower(kind.generate(shorter->shape), options)};
  pair.few.left_out = shorter->left_out;
  return pair;
}

/// As many of any row's constraints as there are.
ScheduleShape long_shape(const ScheduleKind& kind, int devices, int microbatches) {
  ScheduleShape shape{.devices = devices,
                      .microbatches = microbatches,
                      .virtual_stages = usual_virtual_stages(kind)};
  if (kind.name == "seq1f1b") shape.sequence_chunks = 2;
  if (kind.name == "pipedream-2bw") shape.group = devices;
  return shape;
}

/// Not the works, which are numbers in different programs.
void require_same_chain(const CriticalPath& whole, const CriticalPath& few) {
  Duration sum{0}, other{0};
  std::map<std::tuple<int, std::optional<int>, Op, int>, std::pair<int, Duration>> counts, others;
  const auto count = [](const CriticalPath& path, auto& into, Duration& all) {
    for (const CriticalRun& run : path.runs) {
      auto& [times, time] = into[{run.device, run.peer, run.op, run.stage}];
      times += run.count;
      time += run.time;
      all += run.time;
    }
  };
  count(whole, counts, sum);
  count(few, others, other);
  REQUIRE(sum == other);
  REQUIRE(counts == others);
}

/// What a short program says; nothing where it says that it shows no period. It may be that costs
/// that are a little unlike take long to come to one.
template <class Analysis>
auto if_told(const Analysis& analysis) -> std::optional<decltype(analysis())> {
  try {
    return analysis();
  } catch (const Error& error) {
    REQUIRE((error.kind() == ErrorKind::usage || error.kind() == ErrorKind::infeasible));
    return {};
  }
}

void require_same_figures(const Timeline& whole, const Timeline& few) {
  REQUIRE(few.repeat.has_value());
  REQUIRE(step_time(whole) == step_time(few));
  REQUIRE(span_times(whole) == span_times(few));
  REQUIRE(busy_times(whole) == busy_times(few));
  REQUIRE(bubble(whole) == bubble(few));
  REQUIRE(span_bubble(whole) == span_bubble(few));
  REQUIRE(peak_in_flight(whole) == peak_in_flight(few));
  REQUIRE(peak_in_flight(whole, false) == peak_in_flight(few, false));
  REQUIRE(messages_sent(whole, Op::send_activation) == messages_sent(few, Op::send_activation));
  REQUIRE(messages_sent(whole, Op::send_gradient) == messages_sent(few, Op::send_gradient));
  const std::vector<MemoryPeak> peaks = memory_peaks(whole), others = memory_peaks(few);
  REQUIRE(peaks.size() == others.size());
  for (std::size_t d = 0; d < peaks.size(); ++d) {
    CAPTURE(d);
    REQUIRE(peaks[d].bytes == others[d].bytes);
    REQUIRE(peaks[d].use == others[d].use);
    REQUIRE(peaks[d].time == others[d].time);
  }
}

}  // namespace

TEST_CASE("what repeats is counted: every figure of a long schedule as of the whole",
          "[seconds][repeats]") {
  Random random(71);
  std::set<std::string> shortened_kinds;
  int tried = 0, told = 0;
  for (const ScheduleKind& kind : schedule_kinds) {
    for (const int p : {1, 2, 4}) {
      for (const int m : {242, 480}) {
        if (is_watched && m != 242) continue;
        CAPTURE(kind.name, p, m);
        const ScheduleShape shape = long_shape(kind, p, m);
        if (!generated(kind, shape)) continue;
        const auto pair = pair_of(kind, shape);
        if (!pair) continue;
        shortened_kinds.emplace(kind.name);
        REQUIRE(pair->whole.microbatches ==
                pair->few.microbatches + pair->few.left_out->microbatches);
        for (int round = 0; round < 3; ++round) {
          CAPTURE(round);
          const Costs costs = round == 0 ? uniform(pair->whole, split_costs(20ms, 20ms, 20ms), 3ms)
                                         : random_costs(random, pair->whole);
          if (!shows_period(pair->few, costs)) continue;
          ++tried;
          require_same_figures(simulate(pair->whole, costs), simulate(pair->few, costs));
          REQUIRE(CompiledProgram(pair->whole).step(costs) ==
                  CompiledProgram(pair->few).step(costs));
          if (round > 1) continue;
          if (const auto parts = if_told([&] { return attribution(pair->few, costs); })) {
            ++told;
            REQUIRE(attribution(pair->whole, costs) == *parts);
          }
          if (p > 2) continue;
          if (const auto effects = if_told([&] { return sensitivities(pair->few, costs); })) {
            ++told;
            REQUIRE(sensitivities(pair->whole, costs) == *effects);
          }
          if (const auto chain = if_told([&] { return critical_path(pair->few, costs); })) {
            ++told;
            require_same_chain(critical_path(pair->whole, costs), *chain);
          }
        }
      }
    }
  }
  std::string names;
  for (const std::string& name : shortened_kinds) names += name + " ";
  CAPTURE(names);
  for (const char* name : {"1f1b", "dapple-pb", "interleaved", "hanayo", "chimera", "zb-h1",
                           "zb-h2", "zb-v", "dualpipe", "dualpipev", "seq1f1b", "bpipe",
                           "pipedream", "pipedream-2bw", "inference", "1f1b-decoupled-recompute"}) {
    CAPTURE(name);
    CHECK(shortened_kinds.contains(name));
  }
  // All of these hold every microbatch.
  CHECK_FALSE(shortened_kinds.contains("gpipe"));
  CHECK_FALSE(shortened_kinds.contains("looped-bfs"));
  CHECK(tried > (is_watched ? 70 : 150));
  CHECK(told > (is_watched ? 70 : 150));
}

TEST_CASE("what repeats is counted with replicas, memory and sharding, too", "[seconds][repeats]") {
  Random random(72);
  int tried = 0;
  for (const char* name : {"1f1b", "zb-h1", "interleaved", "pipedream"}) {
    const ScheduleKind& kind = find_schedule(name);
    for (int round = 0; round < (is_watched ? 6 : 16); ++round) {
      CAPTURE(name, round);
      const ScheduleShape shape =
          long_shape(kind, random.between(1, 3), random.between(60, 90) * 6);
      const auto schedule = generated(kind, shape);
      if (!schedule) continue;
      LowerOptions options = random_options(random, *schedule);
      if (kind.weights != WeightPolicy::flush) options.replica_policy = ReplicaPolicy::split;
      std::optional<Pair> pair;
      try {
        pair = pair_of(kind, shape, options);
      } catch (const Error& error) {
        continue;  // options that do not go together
      }
      if (!pair) continue;
      const Costs costs = random_costs(random, pair->whole);
      if (!shows_period(pair->few, costs)) continue;
      ++tried;
      require_same_figures(simulate(pair->whole, costs), simulate(pair->few, costs));
      CHECK(check(pair->few).safe() == check(pair->whole).safe());
    }
  }
  CHECK(tried > (is_watched ? 5 : 15));
}

TEST_CASE("a hundred thousand microbatches are the whole run's, to the nanosecond",
          "[seconds][repeats]") {
  const ScheduleKind& kind = find_schedule("1f1b");
  const ScheduleShape shape{.devices = 2, .microbatches = 110'003};
  Random random(73);
  const Program whole = lower(kind.generate(shape));
  const Costs costs = random_costs(random, whole, 1'000'000);
  const Program few = counted_program(kind, shape, costs);
  REQUIRE(few.left_out.has_value());
  CHECK(few.work.size() < whole.work.size() / 3);
  CHECK(CompiledProgram(few).step(costs) == CompiledProgram(whole).step(costs));
  CHECK(step_time(simulate(few, costs)) == CompiledProgram(whole).step(costs));
}

TEST_CASE("an order that differs in one place does not repeat", "[repeats]") {
  // v-half reckons with durations, so that its order may be any; what is accepted is compared.
  for (const char* name : {"gpipe", "looped-bfs", "zb-auto"}) {
    CAPTURE(name);
    const ScheduleKind& kind = find_schedule(name);
    CHECK_FALSE(shortened(kind, long_shape(kind, 2, 300), 0).has_value());
  }
  // Too short to leave out half.
  CHECK_FALSE(shortened(find_schedule("1f1b"), {.devices = 4, .microbatches = 40}, 0).has_value());
}

TEST_CASE("an order that does not repeat is worked out up to a million instructions", "[repeats]") {
  const auto refused = [](const char* name, const ScheduleShape& shape) {
    const std::int64_t passes = passes_of(shape);
    try {
      require_in_reach(find_schedule(name), shape, passes, most_in_full / 4);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::usage);
      CHECK(error.message().find("does not repeat") != std::string::npos);
      return true;
    }
    return false;
  };
  CHECK_FALSE(refused("gpipe", {.devices = 2, .microbatches = 250'000}));
  CHECK(refused("gpipe", {.devices = 2, .microbatches = 250'001}));
  CHECK(refused("zb-auto", {.devices = 64, .microbatches = 10'000}));
  // Of many stages and few microbatches nothing can be left out, whatever the order.
  CHECK_FALSE(refused("1f1b", {.devices = 2000, .microbatches = 500}));
  const Costs costs;
  REQUIRE_THROWS_AS(
      counted_program(find_schedule("gpipe"), {.devices = 2, .microbatches = 300'000}, costs),
      Error);
}

TEST_CASE("what needs every microbatch refuses a program that leaves some out", "[repeats]") {
  const auto pair = pair_of(find_schedule("1f1b"), {.devices = 2, .microbatches = 400});
  REQUIRE(pair.has_value());
  const Program& few = pair->few;
  const Costs costs = uniform(few, chunk_costs(10ms, 20ms));
  REQUIRE_THROWS_AS(simulate(few, costs, {.iterations = 2}), Error);
  REQUIRE_THROWS_AS(run_events(few, costs, {}), Error);
  REQUIRE_THROWS_AS(steady_iterations(few, costs), Error);
  REQUIRE_THROWS_AS(cycle_mean(few, costs), Error);
  REQUIRE_THROWS_AS(lower_bounds(few, costs), Error);
  REQUIRE_THROWS_AS(CompiledProgram(few).tables(), Error);
  REQUIRE_THROWS_AS(jittered_steps(few, costs, {.instruction = 0.1, .samples = 10, .seed = 1}),
                    Error);
}
