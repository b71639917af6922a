// How long PipeDream's optimizer and DAPPLE's planner take here, on PipeDream's published profiles:
// the states of the graph and the search, without the simulation of what was found.
//
//   stagecraft_benchmarks --benchmark_filter=pipedream_flat_16/gnmt_large
//
// `peak_MB` is the process's largest resident size so far: filter for one row to read it.
//
// PipeDream's own program, on a busy 2-core machine: 0.1 to 12 s of CPU and 35 to 230 MB for up to
// 430 states on 16 machines, 36.6 s and 2.3 GB for GNMT-16; 0.05 to 306 s for two levels.

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <filesystem>
#include <string>

#include "planner/strategies/dapple/dapple.hpp"
#include "planner/strategies/pipedream/pipedream_problem.hpp"
#include "profiles/profile.hpp"

namespace {

using namespace stagecraft;

constexpr const char* data_folder = STAGECRAFT_SHARED "/data/pipedream/";

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1000;
}

/// The problem, or nothing where the profiles are not.
std::optional<Problem> published(benchmark::State& state, const std::string& model) {
  const std::string file = data_folder + model + "/graph.txt";
  if (!std::filesystem::exists(file)) {
    state.SkipWithError("no published profiles");
    return {};
  }
  LoadedProfile loaded = load_profile(file);
  Problem problem;
  problem.profile = std::move(loaded.profile);
  problem.source = {.path = loaded.path, .content = std::move(loaded.content)};
  problem.cluster = parse_cluster("16xgeneric");
  problem.global_batch = 16;
  problem.microbatches = {1};
  problem.schedules = {{.name = "1f1b"}};
  return problem;
}

void pipedream(benchmark::State& state, const std::string& model,
               const std::vector<PipedreamLevel>& levels) {
  const auto problem = published(state, model);
  if (!problem) return;
  const Space space(*problem);
  int states = 0;
  for (auto _ : state) {
    const PipedreamStates graph = states_of(*problem, space, 1, {"pipedream", "it", 6000});
    benchmark::DoNotOptimize(pipedream_plan(graph, {}, levels, space.layers()));
    states = graph.size();
  }
  state.counters["states"] = states;
  state.counters["peak_MB"] = peak_megabytes();
}

void dapple(benchmark::State& state, const std::string& model) {
  const auto problem = published(state, model);
  if (!problem) return;
  const PipedreamStates states = states_of(*problem, Space(*problem), 1, {"dapple", "it", 6000});
  for (auto _ : state) {
    benchmark::DoNotOptimize(dapple_plan(states, {.servers = 2, .devices_each = 8},
                                         {.scale = 16, .microbatches = 16}, false));
  }
  state.counters["states"] = states.size();
  state.counters["peak_MB"] = peak_megabytes();
}

[[maybe_unused]] const bool registered = [] {
  for (const std::string model : {"vgg16", "alexnet", "resnet18", "resnet50", "resnet101",
                                  "resnext50", "gnmt", "gnmt_large"}) {
    const auto add = [&](const std::string& name, const std::vector<PipedreamLevel>& levels) {
      benchmark::RegisterBenchmark((name + "/" + model).c_str(), [=](benchmark::State& state) {
        pipedream(state, model, levels);
      })->Unit(benchmark::kMillisecond);
    };
    add("pipedream_flat_16", {{16, 1.25e9}});
    add("pipedream_nested_4x4", {{4, 10e9}, {4, 1.25e9}});
    add("pipedream_nested_8x2", {{8, 30e9}, {2, 3.125e9}});
  }
  for (const std::string model : {"vgg16", "resnet50"}) {
    benchmark::RegisterBenchmark(("dapple_2x8/" + model).c_str(), [=](benchmark::State& state) {
      dapple(state, model);
    })->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
