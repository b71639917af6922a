// Planning for large clusters: Llama 3 405B and GPT-3 175B on 128 to 16,384 GPUs, over depths,
// columns, tensor-parallel degrees, microbatches and schedules
// (planner/search/column_search.hpp).
//
//   stagecraft_benchmarks --benchmark_filter=plan_large
//   stagecraft_benchmarks --benchmark_filter=plan_usual
//
// `plan_usual` asks what `stagecraft plan` does where only a model, a cluster and a batch are
// named, of sixty of them: two models, two kinds of device, five sizes of the cluster, three
// batches.
//
// `gap` is how far the plan can be from the best of its kind at most, `first_s` when there was a
// first plan; `us_per_device` shows how the time grows with the cluster.

#include <benchmark/benchmark.h>

#include <chrono>
#include <optional>
#include <string>

#include "planner/space/schedule_choices.hpp"
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

/// As the command line has it where nobody says more.
Problem usual_problem(const std::string& model, const std::string& device, int nodes,
                      std::int64_t batch) {
  Problem problem = large_problem(model, nodes);
  problem.cluster = parse_cluster(std::to_string(nodes) + "x8x" + device + "@400Gb/s");
  problem.global_batch = batch;
  problem.microbatches.clear();
  for (std::int64_t size = 1; size <= batch; size *= 2) {
    if (batch % size == 0) problem.microbatches.push_back(size);
  }
  problem.microbatch_per_copy = true;
  problem.parallelism.sequence = true;
  problem.schedules = usual_schedule_choices(problem);
  return problem;
}

void search(benchmark::State& state, const Problem& problem) {
  using Clock = std::chrono::steady_clock;
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
      1e-6 * device_count(problem.cluster),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void plan_large(benchmark::State& state, const std::string& model) {
  search(state, large_problem(model, static_cast<int>(state.range(0))));
}

void plan_usual(benchmark::State& state, const std::string& model, const std::string& device) {
  search(state, usual_problem(model, device, static_cast<int>(state.range(0)), state.range(1)));
}

void on_clusters(benchmark::internal::Benchmark* benchmark) {
  for (const int nodes : {16, 128, 512, 2048}) benchmark->Arg(nodes);
  benchmark->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime()->UseRealTime();
}

void on_more_clusters(benchmark::internal::Benchmark* benchmark) {
  for (const int nodes : {128, 256, 512, 1024, 2048}) {
    for (const int batch : {1536, 2048, 4096}) benchmark->Args({nodes, batch});
  }
  benchmark->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime()->UseRealTime();
}

}  // namespace

BENCHMARK_CAPTURE(plan_large, llama3_405b, std::string("llama3-405b"))->Apply(on_clusters);
BENCHMARK_CAPTURE(plan_large, gpt3_175b, std::string("gpt3-175b"))->Apply(on_clusters);
BENCHMARK_CAPTURE(plan_usual, gpt3_175b_h100, std::string("gpt3-175b"), std::string("h100"))
    ->Apply(on_more_clusters);
BENCHMARK_CAPTURE(plan_usual, llama3_405b_h100, std::string("llama3-405b"), std::string("h100"))
    ->Apply(on_more_clusters);
BENCHMARK_CAPTURE(plan_usual, gpt3_175b_a100, std::string("gpt3-175b"), std::string("a100-80gb"))
    ->Apply(on_more_clusters);
BENCHMARK_CAPTURE(plan_usual, llama3_405b_a100, std::string("llama3-405b"),
                  std::string("a100-80gb"))
    ->Apply(on_more_clusters);
