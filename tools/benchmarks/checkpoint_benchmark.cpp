// How close a checkpoint comes to the disk: the same bytes by one plain write and fsync for each
// rank, and as a checkpoint with its hashes, manifest and rename, in turn.
//
// The counter `share_of_disk` is the time of the plain writes divided by that of the checkpoint: 1
// would mean that everything else is free. The folder is that of temporary files; another one is
// named by TMPDIR.

#include <benchmark/benchmark.h>

#include <cstring>
#include <thread>
#include <vector>

#include "executor/checkpoints/files.hpp"
#include "executor/checkpoints/writer.hpp"

namespace stagecraft {

namespace {

namespace fs = std::filesystem;

constexpr int checkpoint_ranks = 2;

// A rank's weights, 16 MiB each: numbers without a pattern.
struct RankState {
  std::vector<ParameterSpec> specs;
  std::vector<HeldState> held;

  RankState(Backend& backend, int rank, Bytes bytes) {
    constexpr std::int64_t elements = 4 << 20;
    const auto count = static_cast<std::size_t>(bytes / (4 * elements));
    specs.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      specs.push_back({.name = "weight " + std::to_string(rank) + "." + std::to_string(i),
                       .shape = {1024, elements / 1024},
                       .initialization = {},
                       .shard = {}});
      Tensor values = backend.allocate({elements}, Precision::float32);
      for (std::int64_t e = 0; e < elements; ++e) {
        const auto bits = static_cast<std::uint32_t>(e * 2654435761 + rank);
        std::memcpy(values.data<float>() + e, &bits, sizeof bits);
      }
      held.push_back({&specs.back(), StateKind::weight, {{}, 0, elements}, std::move(values)});
    }
  }
};

template <class Act>
double seconds_together(const Act& act) {
  const Moment start = now();
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < checkpoint_ranks; ++rank)
      threads.emplace_back([&act, rank] { act(rank); });
  }
  return seconds(now() - start);
}

void write_plainly(const fs::path& folder, const RankState& state, int rank) {
  Bytes whole = 0;
  for (const HeldState& held : state.held) whole += held.values.bytes();
  DurableFile file(folder / ("plain-" + std::to_string(rank)), whole, "make room");
  for (const HeldState& held : state.held) {
    file.write({held.values.data<char>(), static_cast<std::size_t>(held.values.bytes())});
  }
  file.finish();
}

void checkpoint_beside_plain_writes(benchmark::State& state) {
  const Bytes bytes = state.range(0) << 20;
  const auto backend = make_cpu_backend();
  std::vector<RankState> states;
  for (int rank = 0; rank < checkpoint_ranks; ++rank)
    states.emplace_back(*backend, rank, bytes / checkpoint_ranks);
  std::string name = (fs::temp_directory_path() / "stagecraft-XXXXXX").string();
  const fs::path folder = ::mkdtemp(name.data());
  CheckpointWriter writer({.model = "benchmark"}, {.folder = folder / "checkpoints", .keep = 1}, 0);
  const auto transports =
      make_thread_transports({.ranks = checkpoint_ranks, .channels = {}, .groups = {}});
  double plain = 0;
  double checkpoint = 0;
  int step = 0;
  for ([[maybe_unused]] auto _ : state) {
    ++step;
    plain += seconds_together(
        [&](int rank) { write_plainly(folder, states[static_cast<std::size_t>(rank)], rank); });
    for (int rank = 0; rank < checkpoint_ranks; ++rank) {
      fs::remove(folder / ("plain-" + std::to_string(rank)));
    }
    const double took = seconds_together([&](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      writer.write(*transports[at], *backend, states[at].held, {.steps = step});
    });
    checkpoint += took;
    state.SetIterationTime(took);
  }
  fs::remove_all(folder);
  state.SetBytesProcessed(step * bytes);
  state.counters["share_of_disk"] = plain / checkpoint;
}

}  // namespace

BENCHMARK(checkpoint_beside_plain_writes)
    ->Name("checkpoint/mebibytes")
    ->Arg(256)
    ->Arg(1024)
    ->Iterations(5)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace stagecraft
