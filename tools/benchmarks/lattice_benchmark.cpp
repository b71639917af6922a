// Planning over the lattice of downsets: counting it, and the two planners that search it, on their
// published inputs (skipped where those are not there).
//
// By processor time on one busy core at 2.6 GHz, beside what the planners' own programs take:
//
//   GNMT-16, 3,078,900 downsets                      counted in 0.85 s
//   dnn-partitioning GNMT, 17,914 downsets           0.18 s inference, 0.34 s training (10.7, 19.5)
//   dnn-partitioning BERT-L12, 2,906 downsets        0.05 s                             (10.4)
//   Piper BERT-32, 2,048 devices                     0.05 s                             (51 to 55)
//   Piper ResNet-50, 128 devices                     0.3 to 0.7 s                       (10 to 16)
//
// All of them are proved optimal in their planner's model.

#include <benchmark/benchmark.h>

#include <filesystem>

#include "planner/downsets.hpp"
#include "planner/strategies/dnn_partitioning/dnn_question.hpp"
#include "planner/strategies/dnn_partitioning/max_load.hpp"
#include "planner/strategies/piper/piper_split.hpp"
#include "profiles/importers/dnn_partitioning_graph.hpp"
#include "profiles/importers/pipedream_graph.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

constexpr double gibibyte = 1024.0 * 1024 * 1024;

/// The content of a published file; skips the benchmark and gives none if there is no such file.
std::string published(benchmark::State& state, const std::string& name) {
  const std::string file = std::string(STAGECRAFT_SHARED) + "/data/" + name;
  if (std::filesystem::exists(file)) return read_file(file);
  state.SkipWithError(("no published data at " + file).c_str());
  return {};
}

void count_gnmt_large(benchmark::State& state) {
  const std::string content = published(state, "pipedream/gnmt_large/graph.txt");
  if (content.empty()) return;
  const PipedreamGraph graph = read_pipedream_graph(content, "graph.txt");
  Dag dag;
  std::vector<int> number(graph.nodes.size(), -1);
  for (std::size_t n = 0; n < number.size(); ++n) {
    if (!graph.nodes[n].description.starts_with("Input")) number[n] = dag.nodes++;
  }
  for (const Edge& edge : graph.edges) {
    const int from = number[static_cast<std::size_t>(edge.from)];
    const int to = number[static_cast<std::size_t>(edge.to)];
    if (from >= 0 && to >= 0) dag.edges.push_back({from, to});
  }
  for (auto _ : state) {
    if (count_downsets(dag, 10'000'000) != 3'078'900) state.SkipWithError("another number");
  }
}

void split_by_load(benchmark::State& state, const char* name) {
  const std::string content = published(state, std::string("dnn-partitioning/") + name + ".json");
  if (content.empty()) return;
  const DnnGraph graph = read_dnn_partitioning_graph(content, name);
  MaxLoadProblem problem = question_of(graph, dnn_layers(graph, name));
  problem.accelerators = graph.accelerators;
  problem.processors = graph.processors;
  problem.memory = graph.memory;
  for (auto _ : state) {
    const auto split = split_by_max_load(problem, 1'000'000, {});
    if (split->lower_bound < split->load) state.SkipWithError("not proved optimal");
  }
}

void split_as_piper(benchmark::State& state, const char* name, double memory) {
  const std::string content = published(state, std::string("piper/") + name + ".json");
  if (content.empty()) return;
  PiperGraph graph = read_piper_graph(content, name);
  graph.devices = static_cast<int>(state.range(0));
  graph.microbatches = static_cast<int>(state.range(1));
  graph.memory = memory * gibibyte;
  graph.bandwidth = 25 * gibibyte;
  for (auto _ : state) {
    const auto split = split_by_piper(graph, 1500, {});
    if (split->lower_bound < split->time) state.SkipWithError("not proved optimal");
  }
}

BENCHMARK(count_gnmt_large)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(split_by_load, gnmt_inference, "LayerGraphs/gnmt_inference")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(split_by_load, gnmt_training, "LayerGraphs/gnmt_training")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(split_by_load, bert_12, "OperatorGraphs/bert_l-12_inference")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(split_as_piper, bert_32, "bert32a100", 8)
    ->Args({2048, 1920})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(split_as_piper, resnet_50, "resnet", 4)
    ->Args({128, 7680})
    ->Unit(benchmark::kMillisecond);

}  // namespace

}  // namespace stagecraft
