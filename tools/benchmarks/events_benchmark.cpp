// Instructions per second of the event engine, one thread: the engine alone, and with all that
// turns a program into a timeline.
//
// An instruction starts once and ends once: 32 bytes of its slot, 16 of times, 4 of open arcs and
// some 10 of followers, and every second one goes through the queue (16 bytes, moved two or three
// times). Slots lie in the order in which they are likely to start, so these 62 bytes stream: at
// 20 GB/s that a core reads, 320 million a second, ten times what is reached; what binds is the
// 70 to 80 cycles of work per instruction. With slots in the order of the program, which the first
// version had, neighbours in time lay as far apart as devices are many, and a program that did not
// fit into the second-level cache waited for the third one or for memory at each arc.
//
// Measured at 2.6 GHz by processor time, best of few runs, while others kept both cores busy (which
// costs half of the large ones' speed), in millions per second; before, what the first version did
// in the same state (the last shape is not in the list below: lowering it takes too long):
//
//                         8, 64, 2   64, 64, 1   64, 512, 2   512, 64, 1   512, 512, 1
//   instructions             5,900      24,000      390,000      190,000     1,570,000
//   free                        37          34           29           36            22
//   before                      37          21           16           27             8
//   fair, memory                12          13            8           13             5
//   before                       7           7            6            8             3
//   fifo, memory                12          13            8           13             7
//   before                       9          10            4            7             3
//
// A message on shared links also enters and leaves its links, and each time the rates of all flows
// that the change can reach are worked out anew, and what they have moved is kept to the byte.
// That, and 24 bytes more per slot for memory, is why these are slower.

#include <benchmark/benchmark.h>

#include "simulator/engines/events/engine.hpp"
#include "simulator/lowering/lower.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

using namespace std::chrono_literals;

constexpr Bytes megabyte = 1'000'000;

// devices, microbatches, virtual stages
Program program_of(const benchmark::State& state) {
  const ScheduleShape shape{.devices = static_cast<int>(state.range(0)),
                            .microbatches = static_cast<int>(state.range(1)),
                            .virtual_stages = static_cast<int>(state.range(2))};
  const Schedule schedule = shape.virtual_stages == 1 ? one_f_one_b(shape) : interleaved(shape);
  LowerOptions options;
  options.boundary.assign(static_cast<std::size_t>(schedule.stages), 10 * megabyte);
  options.memory.assign(
      static_cast<std::size_t>(schedule.stages),
      {{.saved = 40 * megabyte, .input = 10 * megabyte, .output = 10 * megabyte}});
  return lower(schedule, options);
}

Costs costs_of(const Program& program) {
  return uniform(program, {.forward = 1'000'000ns, .backward = 2'000'000ns}, 20'000ns);
}

// Each device's messages share one link out and one link in, of 25 GB/s, and it has the memory that
// it needs.
Environment shared(const Program& program, Sharing sharing) {
  Environment environment;
  environment.network.sharing = sharing;
  environment.network.links.assign(2 * program.order.size(), {25'000 * megabyte});
  for (const Channel& channel : program.channels) {
    const int from = program.chunks[static_cast<std::size_t>(channel.from)].device;
    const int to = program.chunks[static_cast<std::size_t>(channel.to)].device;
    environment.network.channels.push_back({{2 * from, 2 * to + 1}, channel.bytes});
  }
  environment.memory_limits = program.arena;
  return environment;
}

void count(benchmark::State& state, const Program& program) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(program.work.size()));
}

void engine_alone(benchmark::State& state, const Program& program, const Environment& environment) {
  const events::Precedence precedence(program, environment);
  events::Engine engine(precedence, costs_of(program), environment, 1);
  for (auto _ : state) benchmark::DoNotOptimize(engine.run(0));
  count(state, program);
}

void free_engine(benchmark::State& state) {
  engine_alone(state, program_of(state), {});
}
void fair_engine(benchmark::State& state) {
  const Program program = program_of(state);
  engine_alone(state, program, shared(program, Sharing::fair));
}
void fifo_engine(benchmark::State& state) {
  const Program program = program_of(state);
  engine_alone(state, program, shared(program, Sharing::fifo));
}
void free_timeline(benchmark::State& state) {
  const Program program = program_of(state);
  const Costs costs = costs_of(program);
  for (auto _ : state) benchmark::DoNotOptimize(simulate_events(program, costs, {}));
  count(state, program);
}

void event_shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({8, 32, 1})
      ->Args({8, 64, 2})
      ->Args({8, 8192, 2})
      ->Args({64, 64, 1})
      ->Args({64, 512, 2})
      ->Args({512, 64, 1});
}

BENCHMARK(free_engine)->Apply(event_shapes);
BENCHMARK(fair_engine)->Apply(event_shapes);
BENCHMARK(fifo_engine)->Apply(event_shapes);
BENCHMARK(free_timeline)->Apply(event_shapes);

}  // namespace

}  // namespace stagecraft
