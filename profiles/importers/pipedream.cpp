// graph.txt of the PipeDream profiler (Narayanan et al. 2019):
//
//   node4 -- Conv2d(3, 64, …) -- forward_compute_time=1.2, backward_compute_time=2.1,
//   activation_size=1048576.000, parameter_size=6912.000 	node4 -- node5
//
// Times are milliseconds and sizes bytes, both of one whole minibatch on one V100-class GPU, whose
// number of samples the file does not say. So the one entry of the profile has microbatch 1, and
// one "sample" is the profiled minibatch. What the file does not say either, we assume:
//
// - the backward time is half for the input and half for the weights, or all for the input where
//   there are no weights;
// - the output of each layer is what is kept for backward; the input's share is kept by its maker;
// - gradients are as large as the weights, and the optimizer (plain SGD) keeps nothing.
//
// Like PipeDream's own optimizer, this drops the `Input…` sources (their time is data loading) and
// the `__getitem__` sinks that nothing reads.

#include <algorithm>
#include <filesystem>
#include <set>

#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/importers/linear_order.hpp"
#include "profiles/importers/pipedream_graph.hpp"
#include "profiles/model_graph.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

using Graph = PipedreamGraph;
using Node = PipedreamNode;

/// The graph without the nodes for which `drop` holds.
template <class Drop>
Graph without(const Graph& graph, Drop drop) {
  Graph kept;
  std::vector<int> position(graph.nodes.size(), -1);
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    if (drop(static_cast<int>(node))) continue;
    position[node] = static_cast<int>(kept.nodes.size());
    kept.nodes.push_back(graph.nodes[node]);
  }
  for (const Edge& edge : graph.edges) {
    const int from = position[static_cast<std::size_t>(edge.from)];
    const int to = position[static_cast<std::size_t>(edge.to)];
    if (from >= 0 && to >= 0) kept.edges.push_back({from, to});
  }
  return kept;
}

Graph without_inputs(const Graph& graph) {
  std::set<int> readers;
  for (const Edge& edge : graph.edges) readers.insert(edge.to);
  return without(graph, [&](int node) {
    const std::string& description = graph.nodes[static_cast<std::size_t>(node)].description;
    return description.starts_with("Input") && !readers.contains(node);
  });
}

Graph without_unread_items(const Graph& graph) {
  std::set<int> read;
  for (const Edge& edge : graph.edges) read.insert(edge.from);
  return without(graph, [&](int node) {
    const std::string& description = graph.nodes[static_cast<std::size_t>(node)].description;
    return description.starts_with("__getitem__") && !read.contains(node);
  });
}

LayerCost cost_of(const Node& node) {
  LayerCost cost;
  const bool has_weights = node.parameters > 0;
  cost.forward = node.forward;
  cost.backward_input = has_weights ? node.backward / 2 : node.backward;
  cost.backward_weight = node.backward - cost.backward_input;
  cost.saved_for_weight = has_weights ? node.activation : 0;
  cost.output = node.activation;
  cost.parameters = node.parameters;
  cost.gradients = node.parameters;
  cost.provenance = Provenance::measured;
  return cost;
}

std::string model_name(const std::string& file) {
  const std::filesystem::path path(file);
  const std::string folder = path.parent_path().filename().string();
  return path.filename() == "graph.txt" && !folder.empty() ? folder : path.stem().string();
}

/// The layers in the file's order, not yet one that training can follow.
Model model_of(const Graph& graph, const std::string& file) {
  constexpr Bytes element = 4;
  Model model;
  model.name = model_name(file);
  for (const Node& node : graph.nodes) {
    model.layers.push_back({.name = pipedream_layer_name(node),
                            .kind = LayerKind::opaque,
                            .parameters = node.parameters / element,
                            .output_elements = node.activation / element});
  }
  std::set<std::pair<int, int>> seen;
  for (const Edge& edge : graph.edges) {
    if (seen.insert({edge.from, edge.to}).second) model.edges.push_back(edge);
  }
  return model;
}

Profile profile_of(const Graph& graph, const std::string& file) {
  Profile profile;
  profile.model = model_of(graph, file);
  const auto place = [&](int layer) {
    return SourcePlace{file, graph.nodes[static_cast<std::size_t>(layer)].line, 1};
  };
  refuse_cycle(profile.model, place);
  refuse_parts(profile.model, place);
  std::vector<Bytes> outputs;
  for (const Node& node : graph.nodes) outputs.push_back(node.activation);
  const std::vector<int> order = linear_order(profile.model, outputs);
  ProfileEntry entry;
  entry.setting = {.device = "v100", .microbatch = 1, .precision = Precision::float32};
  for (const int layer : order) {
    entry.layers.push_back(cost_of(graph.nodes[static_cast<std::size_t>(layer)]));
  }
  profile.model = reordered(std::move(profile.model), order);
  profile.entries.push_back(std::move(entry));
  profile.source =
      "PipeDream graph.txt: measured per minibatch; microbatch 1 stands for that whole minibatch; "
      "backward split evenly between input and weights";
  return profile;
}

}  // namespace

bool looks_like_pipedream(std::string_view content) {
  const std::size_t start = content.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos || content[start] == '{') return false;
  return content.find("forward_compute_time=") != std::string_view::npos ||
         content.substr(start).starts_with("node");
}

Profile import_pipedream(std::string_view content, const std::string& file) {
  try {
    const Graph graph = without_unread_items(without_inputs(read_pipedream_graph(content, file)));
    if (graph.nodes.empty()) fail("the graph has no layers");
    return profile_of(graph, file);
  } catch (const Error& error) {
    if (error.place()) throw;
    throw Error(ErrorKind::input, error.message(), SourcePlace{file, 0, 0}, error.help());
  }
}

}  // namespace stagecraft
