// What a rank holds: one arena, of the program's size to the byte, in which as much lives at once
// as the simulator says, but for messages on their way.

#include "executor/driver/ranks.hpp"
#include "simulator/checks/check.hpp"
#include "simulator/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// What lives at once at most if one thread carries out the device's work: sends go out early.
Bytes most_alive(const Program& program, int device) {
  Bytes now = 0, most = 0;
  const auto change = [&](const int* it, const int* end, int sign) {
    for (; it != end; ++it) {
      const Buffer& buffer = program.buffers[static_cast<std::size_t>(*it)];
      if (buffer.device == device) now += sign * buffer.bytes;
    }
    most = std::max(most, now);
  };
  change(program.resident.data(), program.resident.data() + program.resident.size(), 1);
  for (const int i : order_of_device(program, device)) {
    const Work& work = program.work[static_cast<std::size_t>(i)];
    change(begin_of(program.allocations, work.allocates),
           end_of(program.allocations, work.allocates), 1);
    change(begin_of(program.releases, work.frees), end_of(program.releases, work.frees), -1);
  }
  return most;
}

void check_memory(const Setting& setting) {
  INFO(describe(setting));
  const Prepared prepared = prepare(setting);
  const Compiled compiled = traced(prepared).compiled;
  const RunResult result = run(prepared, {.steps = 3});
  CHECK(result.allocated_memory == compiled.program.arena);
  // The simulator has an output alive until its message has arrived, a rank until it hands it over.
  const auto simulated = memory_peaks(simulate(compiled.program, compiled.costs));
  const Bytes message = aligned(Bytes{setting.rows} * 8 * 16 * element_bytes(setting.precision));
  REQUIRE(result.peak_memory.size() == simulated.size());
  for (std::size_t i = 0; i < simulated.size(); ++i) {
    CHECK(result.peak_memory[i] == most_alive(compiled.program, static_cast<int>(i)));
    CHECK(result.peak_memory[i] <= simulated[i].bytes);
    CHECK(simulated[i].bytes <= result.peak_memory[i] + 2 * message);
    CHECK(simulated[i].bytes <= compiled.program.arena[i]);
  }
}

}  // namespace

TEST_CASE("layers that recompute together keep less than each by itself", "[seconds]") {
  using enum Recomputed;
  constexpr int microbatches = 64;
  const auto peak = [](std::vector<Recomputed> again) {
    const Setting setting{
        .schedule = "gpipe", .devices = 1, .microbatches = microbatches, .again = std::move(again)};
    return run(prepare(setting), {.steps = 1}).peak_memory.front();
  };
  const std::vector<Recomputed> apart(8, full);
  std::vector<Recomputed> pair = apart, all(8, with_next);
  pair[1] = with_next;
  all.back() = full;
  const Bytes tensor = Bytes{2} * 8 * 16 * element_bytes(Setting{}.precision);
  // The input of one layer less, of all microbatches; all of both layers while one goes back.
  CHECK(peak(pair) < peak(apart));
  CHECK(peak(pair) > peak(apart) - microbatches * aligned(tensor));
  CHECK(peak(all) < peak(pair) - 4 * microbatches * aligned(tensor));
}

TEST_CASE("a rank's arena is what the program says, and holds what the simulator says",
          "[seconds]") {
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    check_memory({.schedule = "gpipe", .devices = 2, .recompute = recompute});
    check_memory({.devices = 4, .microbatches = 8, .recompute = recompute});
    check_memory({.devices = 2, .replicas = {2, 2}, .recompute = recompute});
    check_memory(
        {.schedule = "interleaved", .devices = 2, .virtual_stages = 2, .recompute = recompute});
  }
  check_memory({.devices = 4, .microbatches = 8, .again = every_choice()});
  check_memory({.devices = 2, .degrees = {2, 2}, .again = every_choice()});
  check_memory({.schedule = "zb-h1", .devices = 2, .again = every_choice()});
  check_memory({.devices = 1, .again = in_runs()});
  check_memory({.devices = 2, .microbatches = 8, .again = in_runs()});
  check_memory({.schedule = "zb-h1", .devices = 2, .again = in_runs()});
  check_memory({.schedule = "interleaved",
                .devices = 2,
                .virtual_stages = 2,
                .style = Style::llama,
                .again = std::vector(8, Recomputed::selective)});
  check_memory({.schedule = "bpipe",
                .devices = 4,
                .microbatches = 8,
                .again = std::vector(8, Recomputed::selective)});
  check_memory({.schedule = "pipedream", .devices = 4, .tied = false, .again = every_choice()});
  check_memory({.devices = 2, .rows = 3, .replicas = {3, 1}, .style = Style::network});
  check_memory({.devices = 2, .replicas = {2, 2}, .sharding = Sharding::zero1});
  check_memory({.schedule = "zb-h1", .devices = 4, .microbatches = 8});
  check_memory({.schedule = "zb-v", .devices = 2, .virtual_stages = 2});
  check_memory({.schedule = "chimera", .devices = 4});
  check_memory({.schedule = "bpipe", .devices = 4, .microbatches = 8});
  check_memory({.schedule = "pipedream", .devices = 4, .tied = false});
}

TEST_CASE("so does one of pieces of sequences, what they leave each other included") {
  for (const int pieces : {2, 4}) {
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      Setting setting{
          .schedule = "seq1f1b", .devices = 2, .recompute = recompute, .sequence_chunks = pieces};
      check_memory(setting);
      setting.replicas = {2, 1};
      check_memory(setting);
      const Program program = traced(prepare(setting)).compiled.program;
      const auto of_role = [&](BufferRole role) {
        return std::ranges::count(program.buffers, role, &Buffer::role);
      };
      // Three chunks, and four sequences' pieces but the last.
      CHECK(of_role(BufferRole::past_gradients) == Bytes{3} * 4 * (pieces - 1));
      CHECK(of_role(BufferRole::past) ==
            (recompute == Recompute::full ? Bytes{3} * 4 * (pieces - 1) : 0));
      CHECK(check(program).safe());
    }
  }
}

TEST_CASE("what runs in an arena is the traced program, which is safe and nearly without gaps") {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "bpipe"}) {
    INFO(schedule);
    const Program program =
        traced(prepare({.schedule = schedule, .devices = 4, .microbatches = 8})).compiled.program;
    const CheckReport report = check(program);
    CHECK(report.safe());
    for (int device = 0; device < program.devices; ++device) {
      const auto alive = static_cast<double>(most_alive(program, device));
      CHECK(static_cast<double>(program.arena[static_cast<std::size_t>(device)]) <= 1.1 * alive);
    }
  }
}
