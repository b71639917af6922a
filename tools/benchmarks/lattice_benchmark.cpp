// The lattice of downsets: counting those of GNMT-16, 3,078,900 of them, takes 0.85 s of processor
// time at 2.6 GHz (skipped where the published graph is not there). What planners make of the
// lattice is in targets_benchmark.cpp.

#include <benchmark/benchmark.h>

#include <filesystem>

#include "planner/space/downsets.hpp"
#include "profiles/importers/pipedream_graph.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

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

BENCHMARK(count_gnmt_large)->Unit(benchmark::kMillisecond);

}  // namespace

}  // namespace stagecraft
