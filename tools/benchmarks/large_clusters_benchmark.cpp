// Planning for large clusters: Llama 3 405B on 128 to 16,384 GPUs, over depths, columns,
// tensor-parallel degrees, microbatches and schedules (planner/column_search.hpp).
//
//   stagecraft_benchmarks --benchmark_filter=plan_llama3_405b
//
// `gap` is how far the plan can be from the best of its kind at most; `us_per_device` shows how the
// time grows with the cluster.

#include <benchmark/benchmark.h>

#include <string>

#include "planner/strategies.hpp"
#include "profiles/profile.hpp"

namespace {

using namespace stagecraft;

Problem llama(int nodes) {
  LoadedProfile loaded = load_profile("llama3-405b");
  Problem problem;
  problem.model_name = "llama3-405b";
  problem.profile = std::move(loaded.profile);
  problem.cluster = parse_cluster(std::to_string(nodes) + "x8xh100@400Gb/s");
  problem.precision = Precision::bfloat16;
  problem.sequence = problem.profile.model.sequence;
  problem.global_batch = 2048;
  for (std::int64_t size = 1; size <= problem.global_batch; size *= 2) {
    problem.microbatches.push_back(size);
  }
  problem.tensor_parallel = {1, 2, 4, 8};
  problem.schedules = {{.name = "1f1b"}, {.name = "zb-h1"}, {.name = "zb-v", .virtual_stages = 2}};
  for (const int v : {2, 3, 4}) {
    problem.schedules.push_back({.name = "interleaved", .virtual_stages = v});
  }
  return problem;
}

void plan_llama3_405b(benchmark::State& state) {
  const int nodes = static_cast<int>(state.range(0));
  const Problem problem = llama(nodes);
  SearchResult result;
  for (auto _ : state) result = search_exact(problem, {});
  state.counters["gap"] = result.gap;
  if (!result.plans.empty()) {
    state.counters["step_s"] = seconds(result.plans.front().prediction->step);
  }
  state.counters["us_per_device"] = benchmark::Counter(
      8e-6 * nodes, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace

BENCHMARK(plan_llama3_405b)->Arg(16)->Arg(128)->Arg(512)->Arg(2048)->Unit(benchmark::kMillisecond);
