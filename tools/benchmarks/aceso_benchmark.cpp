// The least time in Aceso's own cost model, on its published profiles (skipped where those are not
// there).
//
// By processor time on one busy core at 2.6 GHz, beside Aceso's search, which takes 200 s for each,
// and what it found (seconds per iteration of 1024 samples, 28,000 MB):
//
//   GPT 1.3B,  4 devices                      3 ms    101.185   (101.18)
//   GPT 2.6B,  8 devices                      9 ms     86.439    (87.36)
//   GPT 13B,  32 devices in four nodes     0.42 s      80.872    (84.61)
//   1024 layers of GPT 1.3B, 8 devices     0.44 s  (400,000 MB)
//
// All of them are proved the least.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <filesystem>

#include "planner/strategies/aceso/aceso_search.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

/// Devices, MB on each, layers (0: as published), and milliseconds that must be reached (0: any).
void search_as_aceso(benchmark::State& state, const char* model) {
  const std::string file = std::string(STAGECRAFT_SHARED) + "/data/aceso/profiled-time-eurosys/" +
                           model + "_mbs1_tp1_algo0.csv";
  if (!std::filesystem::exists(file)) {
    state.SkipWithError(("no published data at " + file).c_str());
    return;
  }
  AcesoDatabase database = read_aceso_database(read_file(file), file);
  if (const int layers = static_cast<int>(state.range(2)); layers > 0)
    database.chain = aceso_chain(database.family, static_cast<int>(database.names.size()), layers);
  const int devices = static_cast<int>(state.range(0));
  constexpr int devices_per_node = 8;
  const AcesoQuestion question{.machine = {.devices = devices,
                                           .devices_per_node = std::min(devices, devices_per_node),
                                           .memory = static_cast<double>(state.range(1))},
                               .global_batch = 1024,
                               .microbatches = {1, 2, 4, 8},
                               .degrees = {1, 2, 4, 8},
                               .most_stages = devices};
  for (auto _ : state) {
    const AcesoAnswer answer = search_by_aceso(database, question, {});
    if (!answer.plan || answer.lower_bound < answer.figures.time)
      state.SkipWithError("not proved optimal");
    if (state.range(3) > 0 && answer.figures.time * 1e3 > static_cast<double>(state.range(3)))
      state.SkipWithError("slower than published");
    state.counters["seconds"] = answer.figures.time;
  }
}

BENCHMARK_CAPTURE(search_as_aceso, gpt_1_3B, "gpt_1_3B")
    ->Args({4, 28'000, 0, 101'185})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search_as_aceso, gpt_2_6B, "gpt_2_6B")
    ->Args({8, 28'000, 0, 87'357})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search_as_aceso, gpt_13B, "gpt_13B")
    ->Args({32, 28'000, 0, 84'610})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search_as_aceso, gpt_1024_layers, "gpt_1_3B")
    ->Args({8, 400'000, 1024, 0})
    ->Unit(benchmark::kMillisecond);

}  // namespace

}  // namespace stagecraft
