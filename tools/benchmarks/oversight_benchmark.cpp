// What it costs to look after a run: flight records, the search for NaN, and the timeline, as
// shares of the step of a small model (larger ones have the same instructions with more work each).
//
// The work that is added to a step is timed by itself, as often as a step does it, and divided by
// the step's time in the same process: the difference of two runs would drown in a busy machine's
// noise. Counters `flight`, `finite`, `timeline`: each must stay below 0.01.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "executor/driver/execute.hpp"
#include "executor/flight/record.hpp"
#include "executor/training/recording.hpp"
#include "profiles/cluster.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

constexpr int model_layers = 6;
constexpr std::int64_t sequence = 64;

Model small_gpt(std::int64_t hidden) {
  return make_transformer("small",
                          {.hidden = hidden,
                           .heads = hidden / 32,
                           .key_value_heads = hidden / 32,
                           .head_width = 32,
                           .feed_forward = 4 * hidden,
                           .vocabulary = 256,
                           .positions = sequence},
                          model_layers - 2, sequence);
}

Plan two_stages() {
  return {.model = "small",
          .cluster = "2xcpu",
          .precision = Precision::float32,
          .batch = {.global = 4, .microbatch = 1, .microbatches = 4, .sequence = sequence},
          .schedule = {.name = "1f1b"},
          .stages = {{.layers = {0, 3}, .devices = {{0}}}, {.layers = {3, 6}, .devices = {{1}}}}};
}

Duration median(std::vector<Duration> times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

/// Instructions, and waits around each of them, of one rank.
Duration flight_time(const Program& program, const RankMap& ranks,
                     const std::filesystem::path& folder) {
  FlightRecord record({.flight_records = folder}, program, ranks, 0);
  constexpr int repeats = 1000;
  const Moment start = now();
  for (int i = 0; i < repeats; ++i) {
    record.begin_step(i);
    for (const int work : program.order.front()) {
      record.begin(work);
      record.wait(Doing::receiving, 0, 1);
      record.go_on();
      record.count_message(Doing::receiving, 0);
    }
    record.begin(Doing::between);
  }
  return (now() - start) / repeats;
}

/// Two looks at the clock for each instruction of one rank, and for the step; messages bring
/// theirs.
Duration timeline_time(const Program& program, int ranks) {
  constexpr int repeats = 1000;
  RunRecording recording(program, ranks, repeats);
  const Moment start = now();
  for (int i = 0; i < repeats; ++i) {
    StepRecord& record = recording.step(i);
    record.ranks.front().start = now();
    for (const int work : program.order.front()) {
      Stamp& stamp = record.work[static_cast<std::size_t>(work)];
      stamp.start = now();
      benchmark::ClobberMemory();
      stamp.end = now();
    }
    record.ranks.front().end = now();
  }
  return (now() - start) / repeats;
}

/// Boundary tensors of each microbatch, there and back, and all gradients once.
Duration finite_time(const Model& model, std::int64_t microbatches) {
  const auto backend = make_cpu_backend();
  std::int64_t parameters = 0;
  for (int layer = 0; layer < model_layers / 2; ++layer) {
    parameters += model.layers[static_cast<std::size_t>(layer)].parameters;
  }
  Tensor boundary = backend->allocate({sequence, model.transformer->hidden}, Precision::float32);
  Tensor gradients = backend->allocate({parameters}, Precision::float32);
  backend->zero(boundary);
  backend->zero(gradients);
  std::vector<Duration> times;
  for (int repeat = 0; repeat < 50; ++repeat) {
    const Moment start = now();
    for (std::int64_t i = 0; i < 2 * microbatches; ++i) {
      benchmark::DoNotOptimize(backend->is_finite(boundary));
    }
    benchmark::DoNotOptimize(backend->is_finite(gradients));
    times.push_back(now() - start);
  }
  return median(times);
}

void oversight(benchmark::State& state) {
  const Profile profile{.model = small_gpt(state.range(0))};
  const Plan plan = two_stages();
  const Compiled compiled = compile(plan, profile, parse_cluster(plan.cluster));
  const Dataset dataset = synthetic_dataset(256, 20'000, 1);
  const RankMap ranks = one_rank_per_device(compiled.program);
  const auto folder = std::filesystem::temp_directory_path() / "stagecraft-benchmark";
  for (auto _ : state) {
    const Duration step =
        median(execute(plan, profile, compiled, dataset, {.steps = 20}).step_times);
    const auto share = [&](Duration added) {
      return static_cast<double>(added.count()) / static_cast<double>(step.count());
    };
    state.counters["flight"] = share(flight_time(compiled.program, ranks, folder));
    state.counters["finite"] = share(finite_time(profile.model, plan.batch.microbatches));
    state.counters["timeline"] = share(timeline_time(compiled.program, ranks.ranks()));
    state.counters["step_us"] = static_cast<double>(step.count()) / 1000;
  }
  std::filesystem::remove_all(folder);
}
BENCHMARK(oversight)->Arg(64)->Arg(256)->Iterations(3)->Unit(benchmark::kMillisecond);

}  // namespace

}  // namespace stagecraft
