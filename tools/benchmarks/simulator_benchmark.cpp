// How many instructions the simulator's engines time per second, on one core. Measured in processor
// time on a busy virtual machine (AMD EPYC, 2.6 GHz, baseline x86-64); from programs of 1,400
// instructions to such of 785,000, in millions per second:
//
//   clock_runs   Clock::run, all starts and ends            123 to 38       goal  30
//   compiled     CompiledProgram::step, one table           990 to 900      goal 130
//   batched      CompiledProgram::steps, 16 tables          1360 to 1600    goal 400
//   jittered     a draw per computation and sample          180
//
//   lower_turns  12 stages of up to 480 replicas that take turns, 1,920 microbatches
//   what_if      1T parameters on 3,072 devices, folded     0.15 ms         goal 1 ms
//   growth       10^4, 10^5, 10^6, 10^7 instructions        0.010, 0.080, 1.2, 11.5 ms
//   long_steps   10^8 instructions, by what repeats         230 ms, 50 MiB
//
// An instruction is one of the lowered program: of 1F1B a third are computations, a third sends and
// a third receives. A receive costs the compiled program nothing, so it has two nodes for three
// instructions; `nodes` says how many it times per second.
//
// What bounds them. The clock reads an instruction's whole record (72 bytes), its place in its
// device's order, its waits and what they point to, and writes two times: some 120 bytes, 170 M/s
// at the 20 GB/s that a core streams. Small programs come near that; large ones wait for the lines
// of works that lie far apart. A compiled node is 20 bytes: it loads two slots and two prices and
// stores a slot, which two loads per cycle bound to one node in two cycles, 1.3 G/s; it comes to
// 0.8. Its slots stay in the first cache, so length does not matter until the nodes leave the last
// one. Batched, a node serves 16 lanes of 8 bytes: 4 x 16 loads in pairs (the baseline's vectors)
// at two per cycle, one lane in a cycle, 2.6 G/s; there is no 64-bit maximum among them, which
// halves it.

#include <benchmark/benchmark.h>

#include "simulator/analyses/jitter.hpp"
#include "simulator/engines/clock.hpp"
#include "simulator/engines/compiled.hpp"
#include "simulator/engines/fold.hpp"
#include "simulator/engines/steady.hpp"
#include "simulator/lowering/lower.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

using namespace std::chrono_literals;

Program interleaved_program(const benchmark::State& state) {
  return lower(interleaved({.devices = static_cast<int>(state.range(0)),
                            .microbatches = static_cast<int>(state.range(1)),
                            .virtual_stages = static_cast<int>(state.range(2))}));
}

Costs plain_costs(const Program& program) {
  return uniform(program, {.forward = 10ms, .backward = 20ms}, 100us);
}

void count(benchmark::State& state, double per_run, const char* name = "instructions") {
  state.counters[name] = benchmark::Counter(per_run, benchmark::Counter::kIsIterationInvariantRate,
                                            benchmark::Counter::kIs1000);
}

void clock_runs(benchmark::State& state) {
  const Program program = interleaved_program(state);
  Clock clock(program, plain_costs(program));
  for (auto _ : state) {
    clock.run();
    benchmark::ClobberMemory();
  }
  count(state, static_cast<double>(program.work.size()));
}

void compiled(benchmark::State& state) {
  const Program program = interleaved_program(state);
  const CompiledProgram compiled(program);
  const Costs costs = plain_costs(program);
  for (auto _ : state) benchmark::DoNotOptimize(compiled.step(costs));
  count(state, static_cast<double>(program.work.size()));
  count(state, static_cast<double>(compiled.nodes()), "nodes");
}

void batched(benchmark::State& state) {
  const Program program = interleaved_program(state);
  const CompiledProgram compiled(program);
  const std::vector<Costs> tables(16, plain_costs(program));
  for (auto _ : state) benchmark::DoNotOptimize(compiled.steps(tables));
  count(state, 16.0 * static_cast<double>(program.work.size()));
  count(state, 16.0 * static_cast<double>(compiled.nodes()), "nodes");
}

/// Draws, rounding and all.
void jittered(benchmark::State& state) {
  const Program program = interleaved_program(state);
  const Costs costs = plain_costs(program);
  const Jitter jitter{.instruction = 0.2, .samples = 160};
  for (auto _ : state) benchmark::DoNotOptimize(jittered_steps(program, costs, jitter));
  count(state, jitter.samples * static_cast<double>(program.work.size()));
}

// devices, microbatches, virtual stages
void program_shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({8, 32, 1})->Args({8, 64, 2})->Args({16, 128, 2})->Args({64, 512, 4});
}
BENCHMARK(clock_runs)->Apply(program_shapes);
BENCHMARK(compiled)->Apply(program_shapes);
BENCHMARK(batched)->Apply(program_shapes);
BENCHMARK(jittered)->Args({8, 32, 1});

/// From ten thousand instructions to ten million in one program, of 1F1B on 64 devices.
void growth(benchmark::State& state) {
  const Program program =
      lower(one_f_one_b({.devices = 64, .microbatches = static_cast<int>(state.range(0))}));
  const CompiledProgram compiled(program);
  const Costs costs = plain_costs(program);
  for (auto _ : state) benchmark::DoNotOptimize(compiled.step(costs));
  count(state, static_cast<double>(program.work.size()));
  state.counters["size"] = static_cast<double>(program.work.size());
}
BENCHMARK(growth)->Arg(27)->Arg(265)->Arg(2650)->Arg(26500)->Unit(benchmark::kMillisecond);

/// A GPT of 1T parameters on 3,072 devices (Narayanan et al. 2021, table 1): 8 tensor-parallel
/// peers, which one device of a program stands for, 64 stages, 6 replicas with 512 microbatches.
Program trillion() {
  LowerOptions options;
  options.rows = 6;
  for (int stage = 0; stage < 64; ++stage) {
    auto& replicas = options.replicas.emplace_back();
    for (int r = 0; r < 6; ++r) replicas.push_back(6 * stage + r);
  }
  return lower(one_f_one_b({.devices = 64, .microbatches = 512}), options);
}

void what_if_on_3072_devices(benchmark::State& state) {
  const Program program = trillion();
  const auto folded = fold(program, plain_costs(program));
  const CompiledProgram compiled(folded->program);
  const std::vector<Costs> tables(static_cast<std::size_t>(state.range(0)), folded->costs);
  for (auto _ : state) benchmark::DoNotOptimize(compiled.steps(tables));
  state.counters["what_if"] = benchmark::Counter(
      static_cast<double>(tables.size()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);  // seconds each
  count(state, static_cast<double>(state.range(0)) * static_cast<double>(compiled.size()));
}
BENCHMARK(what_if_on_3072_devices)->Arg(1)->Arg(16)->Unit(benchmark::kMillisecond);

/// 16,384 devices, all of them in the program: 64 stages of 256 replicas.
void unfolded_16384_devices(benchmark::State& state) {
  LowerOptions options;
  options.rows = 256;
  for (int stage = 0; stage < 64; ++stage) {
    auto& replicas = options.replicas.emplace_back();
    for (int r = 0; r < 256; ++r) replicas.push_back(256 * stage + r);
  }
  const Program program = lower(one_f_one_b({.devices = 64, .microbatches = 64}), options);
  Clock clock(program, plain_costs(program));
  for (auto _ : state) clock.run();
  count(state, static_cast<double>(program.work.size()));
  state.counters["size"] = static_cast<double>(program.work.size());
}
BENCHMARK(unfolded_16384_devices)->Unit(benchmark::kMillisecond);

/// Lowering a plan as Piper's for 2,048 devices: replicas that take turns, other numbers of them at
/// each stage.
void lower_turns(benchmark::State& state) {
  LowerOptions options;
  options.replica_policy = ReplicaPolicy::round_robin;
  int device = 0;
  for (const int count : {6, 480, 192, 120, 120, 120, 120, 120, 160, 160, 160, 160}) {
    auto& replicas = options.replicas.emplace_back();
    for (int r = 0; r < count; ++r) replicas.push_back(device++);
    options.memory.emplace_back(static_cast<std::size_t>(count), ChunkMemory{.saved = 1});
  }
  const Schedule schedule = one_f_one_b({.devices = 12, .microbatches = 1920});
  for (auto _ : state) benchmark::DoNotOptimize(lower(schedule, options));
}
BENCHMARK(lower_turns)->Unit(benchmark::kMillisecond);

/// 1F1B with so many devices and microbatches, by what repeats: exact, and equal to `growth` where
/// that has the same size. Of each microbatch it has 2 p computations and 4 (p - 1) sends and
/// receives. A program of 10^7 instructions takes 1.75 GiB to lower, so that one of 10^8 would
/// take more than 17.
void long_steps(benchmark::State& state) {
  const ScheduleShape shape{.devices = static_cast<int>(state.range(0)),
                            .microbatches = static_cast<int>(state.range(1))};
  const Program program = lower(one_f_one_b({.devices = shape.devices, .microbatches = 8}));
  const Costs costs = plain_costs(program);
  LongStep found;
  for (auto _ : state) found = long_step(find_schedule("1f1b"), shape, costs);
  state.counters["size"] = static_cast<double>(state.range(1) * (6 * state.range(0) - 4));
  state.counters["microbatches_run"] = found.microbatches_run;
}
BENCHMARK(long_steps)
    ->Args({8, 1'000'000})
    ->Args({64, 26'500})
    ->Args({64, 265'000})
    ->Unit(benchmark::kMillisecond);

}  // namespace

}  // namespace stagecraft
