// Planning where layers choose for themselves what they do again
// (planner/search/layers_search.hpp): short memory, with choices of whole stages, of attention,
// and of whole layers or attention.
//
//   stagecraft_benchmarks --benchmark_filter=plan_recompute
//
// The last number of a row's name: 0 stages as a whole, 1 layers' attention, 2 that or whole
// layers. `gap` is how far the plan can be from the best of its kind at most, `without_limits` how
// far the best plan is whose devices hold as much as it likes: that much of the step is due to
// memory.

#include <benchmark/benchmark.h>

#include <string>

#include "planner/search/layers_search.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/strategies.hpp"
#include "profiles/profile.hpp"

namespace {

using namespace stagecraft;

/// As the command line has it where nobody says more.
Problem short_problem(const std::string& model, const std::string& cluster, std::int64_t batch,
                      Bytes memory) {
  LoadedProfile loaded = load_profile(model);
  Problem problem;
  problem.model_name = model;
  problem.profile = std::move(loaded.profile);
  problem.cluster = parse_cluster(cluster);
  for (DeviceKind& kind : problem.cluster.kinds) kind.memory = memory;
  problem.precision =
      cluster.find("v100") == std::string::npos ? Precision::bfloat16 : Precision::float32;
  problem.sequence = problem.profile.model.sequence;
  problem.global_batch = batch;
  for (std::int64_t size = 1; size <= batch; size *= 2) problem.microbatches.push_back(size);
  problem.tensor_parallel = {1, 2, 4, 8};
  problem.microbatch_per_copy = true;
  problem.parallelism.sequence = true;
  problem.schedules = usual_schedule_choices(problem);
  return problem;
}

/// What may be done again: stages as a whole, layers' attention, or those and whole layers.
enum class Again { stages, attention, layers };

void plan_recompute(benchmark::State& state, const std::string& model, const std::string& cluster,
                    std::int64_t batch, int gib) {
  Problem problem = short_problem(model, cluster, batch, Bytes{gib} << 30);
  const auto again = static_cast<Again>(state.range(0));
  if (again != Again::stages) problem.recompute_layers = {Recomputed::selective};
  if (again == Again::attention) problem.recompute = {Recompute::none};
  if (again == Again::layers) problem.recompute_layers.push_back(Recomputed::full);
  SearchControl control;
  control.threads = 0;
  SearchResult result;
  for (auto _ : state) result = search_exact(problem, control);
  if (result.plans.empty()) return state.SkipWithError("nothing fits");
  const double step = seconds(result.plans.front().prediction->step);
  state.counters["step_s"] = step;
  state.counters["gap"] = result.gap;
  const SearchResult unlimited = search_exact(without_memory_limits(problem), control);
  state.counters["without_limits"] = 1 - seconds(unlimited.plans.front().prediction->step) / step;
}

void for_each_choice(benchmark::internal::Benchmark* benchmark) {
  benchmark->DenseRange(static_cast<int>(Again::stages), static_cast<int>(Again::layers));
  benchmark->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime()->UseRealTime()->Iterations(1);
}

}  // namespace

BENCHMARK_CAPTURE(plan_recompute, gpt2_774m, std::string("gpt2-774m"), std::string("4xv100"), 32, 8)
    ->Apply(for_each_choice);
BENCHMARK_CAPTURE(plan_recompute, gpt2_1558m, std::string("gpt2-1558m"), std::string("8xv100"), 64,
                  8)
    ->Apply(for_each_choice);
BENCHMARK_CAPTURE(plan_recompute, llama3_8b, std::string("llama3-8b"), std::string("8xa100"), 32,
                  40)
    ->Apply(for_each_choice);
