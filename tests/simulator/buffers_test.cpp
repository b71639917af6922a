#include "simulator/checks/check.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Powers of ten, so that a sum shows what it consists of.
constexpr ChunkMemory digits{.parameters = 1'000'000,
                             .gradients = 2'000'000,
                             .optimizer = 4'000'000,
                             .saved = 100'000,
                             .saved_for_weight = 10'000,
                             .input = 1'000,
                             .output = 100,
                             .workspace = 10};
constexpr Bytes resident = 7'000'000;

LowerOptions with_memory(int stages, const ChunkMemory& memory) {
  LowerOptions options;
  options.memory.assign(index(stages), {memory});
  return options;
}

Schedule pipeline(int devices, int microbatches) {
  return one_f_one_b({.devices = devices, .microbatches = microbatches});
}

/// "0:7101110 10:…": time in ns and bytes, beyond what is resident.
std::vector<std::pair<Duration, Bytes>> use_over_time(const Timeline& timeline, int device) {
  std::vector<std::pair<Duration, Bytes>> samples;
  for (const MemorySample& sample : timeline.memory[index(device)]) {
    samples.emplace_back(sample.time, total(sample.use) - resident);
  }
  return samples;
}

/// A life in one simulated execution, by the table entries of the program.
struct Life {
  Duration first = Duration::max();
  Duration end = Duration::max();
};

/// Whether any two buffers that share bytes of an arena live at once, at these costs.
bool arena_holds(const Program& program, const Costs& costs) {
  std::vector<Life> lives(program.buffers.size());
  for (const int buffer : program.resident) lives[index(buffer)].first = 0ns;
  std::vector<std::pair<Duration, Duration>> times(program.work.size());
  // Spans carry no work index: find it by device and instruction, and by peer for messages.
  const Timeline timeline = simulate(program, costs);
  for (int i = 0; i < static_cast<int>(program.work.size()); ++i) {
    const Work& work = program.work[index(i)];
    std::optional<int> peer;
    if (work.channel) {
      const Channel& channel = program.channels[index(*work.channel)];
      peer = program.chunks[index(channel.from == work.chunk ? channel.to : channel.from)].device;
    }
    for (const Span& span : timeline.spans) {
      if (span.device == device_of(program, i) && span.instruction == work.instruction &&
          span.peer == peer) {
        times[index(i)] = {span.start, span.end};
      }
    }
    for (int a = work.allocates.first; a < work.allocates.end; ++a) {
      lives[index(program.allocations[index(a)])].first = times[index(i)].first;
    }
    for (int a = work.frees.first; a < work.frees.end; ++a) {
      lives[index(program.releases[index(a)])].end = times[index(i)].second;
    }
  }
  for (std::size_t a = 0; a < lives.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const Buffer& one = program.buffers[a];
      const Buffer& two = program.buffers[b];
      if (one.device != two.device) continue;
      const bool bytes = one.offset < two.offset + two.bytes && two.offset < one.offset + one.bytes;
      const bool times_meet = lives[a].first < lives[b].end && lives[b].first < lives[a].end;
      if (bytes && times_meet) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("memory over time on two stages, by hand") {
  // f = 10, b = 20, one microbatch, messages take 5:
  //   device 0   F [0, 10)  SF [10, 15)                     RB [45, 50)  B [50, 70)
  //   device 1              RF [10, 15)  F [15, 25)  B [25, 45)  SB [45, 50)
  const Timeline timeline =
      run(pipeline(2, 1), chunk_costs(10ns, 20ns), 5ns, with_memory(2, digits));
  using Samples = std::vector<std::pair<Duration, Bytes>>;
  CHECK(use_over_time(timeline, 0) == Samples{
                                          {0ns, 101'110},   // saved, input, output, workspace
                                          {10ns, 101'100},  // workspace gone
                                          {15ns, 101'000},  // output sent
                                          {45ns, 101'100},  // the gradient of the output arrives
                                          {50ns, 101'110},  // workspace of B
                                          {70ns, 0},
                                      });
  CHECK(use_over_time(timeline, 1) == Samples{
                                          {0ns, 0},
                                          {10ns, 1'000},    // the input arrives
                                          {15ns, 101'010},  // saved, workspace
                                          {25ns, 102'010},  // and the gradient of the input
                                          {45ns, 1'000},    // until it is sent
                                          {50ns, 0},
                                      });
  const std::vector<MemoryPeak> peaks = memory_peaks(timeline);
  CHECK(peaks[0].bytes == resident + 101'110);
  CHECK(peaks[1].bytes == resident + 102'010);
  CHECK(peaks[1].time == 25ns);
  const auto of = [&](MemoryCategory category) {
    return peaks[1].use[static_cast<std::size_t>(category)];
  };
  CHECK(of(MemoryCategory::parameters) == 1'000'000);
  CHECK(of(MemoryCategory::gradients) == 2'000'000);
  CHECK(of(MemoryCategory::optimizer) == 4'000'000);
  CHECK(of(MemoryCategory::activations) == 101'000);
  CHECK(of(MemoryCategory::transfer) == 1'000);
  CHECK(of(MemoryCategory::workspace) == 10);
}

TEST_CASE("full recomputation keeps only the input between forward and backward") {
  // One device: F [0, 10), F [10, 20), R [20, 30), B [30, 50), R [50, 60), B [60, 80).
  Schedule schedule = gpipe({.devices = 1, .microbatches = 2});
  LowerOptions options = with_memory(1, digits);
  options.recompute = {Recompute::full};
  const Timeline timeline = run(schedule, chunk_costs(10ns, 20ns), 0ns, options);
  CHECK(use_over_time(timeline, 0) == std::vector<std::pair<Duration, Bytes>>{
                                          {0ns, 101'010},   // input, and for now what F computes
                                          {10ns, 102'010},  // two inputs
                                          {20ns, 102'010},  // as many, but kept by R now
                                          {50ns, 101'010},
                                          {80ns, 0},
                                      });
}

TEST_CASE("a backward in two halves keeps the input and a rest until the weight gradient") {
  // F [0, 10), I [10, 20), W [20, 30).
  const Schedule schedule{
      .name = "split",
      .stages = 1,
      .microbatches = 1,
      .device_of_stage = {0},
      .devices = {{{Op::forward, 0, 0}, {Op::backward_input, 0, 0}, {Op::backward_weight, 0, 0}}}};
  const ChunkCosts costs{.forward = 10ns, .backward_input = 10ns, .backward_weight = 10ns};
  const Timeline timeline = run(schedule, costs, 0ns, with_memory(1, digits));
  CHECK(use_over_time(timeline, 0) == std::vector<std::pair<Duration, Bytes>>{
                                          {0ns, 101'010},
                                          {10ns, 111'010},  // saved and saved_for_weight
                                          {20ns, 11'010},   // input and saved_for_weight
                                          {30ns, 0},
                                      });
}

TEST_CASE("stages on one device share the tensors they hand over") {
  // F0 [0, 10), F1 [10, 20), B1 [20, 40), B0 [40, 60); nothing is sent.
  const Schedule schedule = interleaved({.devices = 1, .microbatches = 1, .virtual_stages = 2});
  LowerOptions options = with_memory(2, digits);
  for (auto& stage : options.memory) stage[0].parameters = stage[0].gradients = 0;
  for (auto& stage : options.memory) stage[0].optimizer = resident / 2;
  const Timeline timeline = run(schedule, chunk_costs(10ns, 20ns), 0ns, options);
  CHECK(use_over_time(timeline, 0) == std::vector<std::pair<Duration, Bytes>>{
                                          {0ns, 102'010},   // saved 0, inputs 0 and 1, workspace
                                          {10ns, 202'010},  // saved 0 and 1
                                          {20ns, 202'110},  // gradient of stage 0's output
                                          {40ns, 101'110},  // stage 1 is done
                                          {60ns, 0},
                                      });
}

TEST_CASE("without sizes there are no buffers, and memory is not known") {
  const Program program = lower(pipeline(2, 3));
  CHECK(program.buffers.empty());
  CHECK(program.arena == std::vector<Bytes>{0, 0});
  CHECK(simulate(program, uniform(program, chunk_costs(1ns, 1ns))).memory.empty());

  const Program some = lower(pipeline(2, 1), with_memory(2, {.input = 8}));
  for (const Buffer& buffer : some.buffers) CHECK(buffer.bytes == 8);
  CHECK(some.buffers.size() == 3);  // two inputs and the gradient of the second
}

TEST_CASE("buffers are aligned, inside the arena, and of their device") {
  Random random(7);
  for (int round = 0; round < 50; ++round) {
    const Schedule schedule = random_schedule(random, round % 2 == 0 ? RandomKinds{} : all_kinds);
    const Program program = lower(schedule, random_options(random, schedule));
    for (const Buffer& buffer : program.buffers) {
      CHECK(buffer.bytes > 0);
      CHECK(buffer.offset % 64 == 0);
      CHECK(buffer.offset + buffer.bytes <= program.arena[index(buffer.device)]);
      CHECK(buffer.device == program.chunks[index(buffer.chunk)].device);
    }
  }
}

TEST_CASE("whatever the costs, no two live buffers share bytes, and no peak exceeds the arena",
          "[seconds]") {
  Random random(8);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const Schedule schedule = random_schedule(random, round % 2 == 0 ? RandomKinds{} : all_kinds);
    const Program program = lower(schedule, random_options(random, schedule));
    for (int draw = 0; draw < 5; ++draw) {
      // Some chunks and links are a hundred times slower than others.
      Costs costs = random_costs(random, program);
      for (ChunkCosts& chunk : costs.chunks) chunk.forward *= random.below(2) == 0 ? 1 : 100;
      for (ChannelCosts& channel : costs.channels)
        channel.latency *= random.below(2) == 0 ? 1 : 100;
      CHECK(arena_holds(program, costs));
      const std::vector<MemoryPeak> peaks = memory_peaks(simulate(program, costs));
      for (std::size_t device = 0; device < peaks.size(); ++device) {
        CHECK(peaks[device].bytes <= program.arena[device]);
      }
    }
  }
}

TEST_CASE("more buffers at once than places can be looked for are refused in one sentence") {
  const ScheduleShape shape{.devices = 2, .microbatches = 30'000};
  const LowerOptions options = with_memory(2, {.saved = 1});
  std::string sentence;
  try {
    lower(gpipe(shape), options);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    sentence = error.message();
  }
  CHECK(sentence.find("buffers at once and more") != std::string::npos);
  CHECK_NOTHROW(lower(one_f_one_b(shape), options));
}

TEST_CASE("reusing memory never delays anything") {
  Random random(9);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const Schedule schedule = random_schedule(random, round % 2 == 0 ? RandomKinds{} : all_kinds);
    LowerOptions options = random_options(random, schedule);
    const Program with = lower(schedule, options);
    options.memory.clear();
    const Program without = lower(schedule, options);
    const Costs costs = random_costs(random, with);
    CHECK(simulate(with, costs).spans == simulate(without, costs).spans);
  }
}

TEST_CASE("the arena is little larger than the peak") {
  // Saved activations dominate, as they do in training. Beside the peak the arena holds what slow
  // links could delay: some outputs that are still being sent, and one input that came early.
  const ChunkMemory memory{.saved = 34 * 1024, .input = 1024, .output = 1024, .workspace = 4096};
  for (const int p : {2, 4, 8}) {
    const Program program = lower(pipeline(p, 4 * p), with_memory(p, memory));
    const auto peaks = memory_peaks(simulate(program, uniform(program, chunk_costs(10ns, 20ns))));
    for (int device = 0; device < p; ++device) {
      const Bytes slack = (p - device + 4) * 1024;
      CHECK(program.arena[index(device)] <= peaks[index(device)].bytes + slack);
    }
  }
}

TEST_CASE("replicas hold their own sizes") {
  LowerOptions options;
  options.replicas = {{0, 1}};
  options.rows = 3;  // replica 0 has one row, replica 1 two
  options.memory = {{{.saved = 640}, {.saved = 1280}}};
  const Program program = lower(pipeline(1, 1), options);
  CHECK(program.arena == std::vector<Bytes>{640, 1280});
}
