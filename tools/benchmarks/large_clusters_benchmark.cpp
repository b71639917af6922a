// Planning for large clusters: Llama 3 405B and GPT-3 175B on 128 to 16,384 GPUs, over depths,
// columns, tensor-parallel degrees, microbatches and schedules
// (planner/searches/column_search.hpp).
//
//   stagecraft_benchmarks --benchmark_filter=plan_large
//
// `gap` is how far the plan can be from the best of its kind at most, `first_s` when there was a
// first plan; `us_per_device` shows how the time grows with the cluster.

#include <benchmark/benchmark.h>

#include <chrono>
#include <optional>
#include <string>

#include "planner/strategies.hpp"
#include "profiles/profile.hpp"

namespace {

using namespace stagecraft;

Problem large_problem(const std::string& model, int nodes) {
  LoadedProfile loaded = load_profile(model);
  Problem problem;
  problem.model_name = model;
  problem.profile = std::move(loaded.profile);
  problem.cluster = parse_cluster(std::to_string(nodes) + "x8xh100@400Gb/s");
  problem.precision = Precision::bfloat16;
  problem.sequence = problem.profile.model.sequence;
  problem.global_batch = 2048;
  for (std::int64_t size = 1; size <= problem.global_batch; size *= 2) {
    problem.microbatches.push_back(size);
  }
  problem.tensor_parallel = {1, 2, 4, 8};
  problem.schedules = {{.name = "1f1b"},
                       {.name = "gpipe"},
                       {.name = "zb-h1"},
                       {.name = "zb-h2"},
                       {.name = "zb-v", .virtual_stages = 2}};
  for (const int v : {2, 3, 4}) {
    problem.schedules.push_back({.name = "interleaved", .virtual_stages = v});
    problem.schedules.push_back({.name = "interleaved-zb", .virtual_stages = v});
  }
  return problem;
}

void plan_large(benchmark::State& state, const std::string& model) {
  using Clock = std::chrono::steady_clock;
  const int nodes = static_cast<int>(state.range(0));
  const Problem problem = large_problem(model, nodes);
  SearchResult result;
  std::optional<Clock::time_point> first;
  Clock::time_point begin;
  SearchControl control;
  control.threads = 0;
  control.progress = [&](const SearchProgress& progress) {
    if (progress.best && !first) first = Clock::now();
  };
  for (auto _ : state) {
    first.reset();
    begin = Clock::now();
    result = search_exact(problem, control);
  }
  state.counters["gap"] = result.gap;
  if (first) state.counters["first_s"] = std::chrono::duration<double>(*first - begin).count();
  if (!result.plans.empty()) {
    state.counters["step_s"] = seconds(result.plans.front().prediction->step);
  }
  state.counters["us_per_device"] = benchmark::Counter(
      8e-6 * nodes, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void on_clusters(benchmark::internal::Benchmark* benchmark) {
  for (const int nodes : {16, 128, 512, 2048}) benchmark->Arg(nodes);
  benchmark->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime()->UseRealTime();
}

}  // namespace

BENCHMARK_CAPTURE(plan_large, llama3_405b, std::string("llama3-405b"))->Apply(on_clusters);
BENCHMARK_CAPTURE(plan_large, gpt3_175b, std::string("gpt3-175b"))->Apply(on_clusters);
