// Inputs of dnn-partitioning: operators or layers with a time on an accelerator and on a CPU, for
// inference or with their backward nodes, and the devices to split them over.
//
// Times are milliseconds, and so are the edges' costs in the tool's own arithmetic, which adds the
// two. In its published layer graphs the costs are seconds: we read them as the tool does, and
// warn.
//
// A forward node and the backward nodes of its colour become one layer. The profile has the times
// of accelerators; a "sample" is what the file was measured with. What it does not say, we assume:
// a layer's output is what its forward nodes hand to other layers, and what its forward nodes need
// beyond that are weights, with gradients of the same size where there are backward nodes.

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>
#include <cmath>
#include <numeric>
#include <set>

#include "profiles/gzip.hpp"
#include "profiles/importers.hpp"
#include "profiles/importers/dnn_partitioning_graph.hpp"
#include "profiles/importers/figures.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

using Pairs = std::set<std::pair<int, int>>;
using GroupGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;

/// Faster links than any between two devices: the costs were hardly meant in milliseconds.
constexpr double fastest_plausible = 1e12;

/// The number of each node's colour: 0, 1, …
std::vector<int> colors_of(const DnnGraph& graph) {
  std::map<std::int64_t, int> numbers;
  std::vector<int> colors;
  int count = 0;
  for (const DnnNode& node : graph.nodes) {
    if (!node.color) {
      colors.push_back(count++);
    } else {
      const auto [entry, is_new] = numbers.emplace(*node.color, count);
      if (is_new) ++count;
      colors.push_back(entry->second);
    }
  }
  return colors;
}

/// Edges between groups of nodes that forward nodes make, and the mirror images of those that
/// backward nodes of groups without forward nodes make.
Pairs forward_edges(const DnnGraph& graph, const std::vector<int>& group) {
  std::set<int> has_forward;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!graph.nodes[n].backward) has_forward.insert(group[n]);
  }
  Pairs pairs;
  for (const DnnEdge& edge : graph.edges) {
    const int from = group[index(edge.from)];
    const int to = group[index(edge.to)];
    if (from == to) continue;
    const bool orphan = !has_forward.contains(from) || !has_forward.contains(to);
    if (!graph.nodes[index(edge.to)].backward) {
      pairs.insert({from, to});
    } else if (graph.nodes[index(edge.from)].backward && orphan) {
      pairs.insert({to, from});
    }
  }
  return pairs;
}

/// Groups that read from each other in a circle become one.
std::vector<int> without_circles(const DnnGraph& graph, std::vector<int> group) {
  const int groups = *std::max_element(group.begin(), group.end()) + 1;
  GroupGraph forward(index(groups));
  for (const auto& [from, to] : forward_edges(graph, group)) {
    boost::add_edge(index(from), index(to), forward);
  }
  std::vector<std::size_t> component(index(groups));
  boost::strong_components(forward, component.data());
  for (int& number : group) number = static_cast<int>(component[index(number)]);
  return group;
}

/// Adds edges from forward to backward nodes, as far as they join parts that nothing else joins.
void join_parts(const DnnGraph& graph, const std::vector<int>& group, Pairs& pairs) {
  std::vector<int> part(group.size());
  std::iota(part.begin(), part.end(), 0);
  const auto join = [&](int a, int b) {
    std::replace(part.begin(), part.end(), int{part[index(a)]}, int{part[index(b)]});
  };
  for (const auto& [from, to] : pairs) join(from, to);
  for (const DnnEdge& edge : graph.edges) {
    const std::pair pair(group[index(edge.from)], group[index(edge.to)]);
    if (part[index(pair.first)] == part[index(pair.second)]) continue;
    join(pair.first, pair.second);
    pairs.insert(pair);
  }
}

/// Layers numbered by the first node of each.
DnnLayers unordered_layers(const DnnGraph& graph) {
  const std::vector<int> group = without_circles(graph, colors_of(graph));
  std::map<int, int> number;
  DnnLayers layers;
  for (std::size_t n = 0; n < group.size(); ++n) {
    const auto [entry, is_new] = number.emplace(group[n], static_cast<int>(layers.nodes.size()));
    if (is_new) layers.nodes.emplace_back();
    layers.nodes[index(entry->second)].push_back(static_cast<int>(n));
  }
  Pairs pairs = forward_edges(graph, group);
  join_parts(graph, group, pairs);
  for (const auto& [from, to] : pairs) {
    layers.edges.push_back({number.at(from), number.at(to)});
  }
  std::sort(layers.edges.begin(), layers.edges.end(), [](const Edge& a, const Edge& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  return layers;
}

/// Bytes of each forward node's output, zero where no other layer's forward nodes read it.
std::vector<double> handed_on(const DnnGraph& graph, const DnnLayers& layers) {
  std::vector<int> layer(graph.nodes.size());
  for (std::size_t l = 0; l < layers.nodes.size(); ++l) {
    for (const int node : layers.nodes[l]) layer[index(node)] = static_cast<int>(l);
  }
  std::vector<double> bytes(graph.nodes.size(), 0);
  for (const DnnEdge& edge : graph.edges) {
    const bool is_forward = !graph.nodes[index(edge.to)].backward;
    if (!is_forward || layer[index(edge.from)] == layer[index(edge.to)]) continue;
    bytes[index(edge.from)] = std::max(bytes[index(edge.from)], edge.bytes);
  }
  return bytes;
}

LayerCost cost_of(const DnnGraph& graph, const std::vector<int>& nodes,
                  const std::vector<double>& handed) {
  LayerCost cost;
  bool trains = false;
  for (const int n : nodes) {
    const DnnNode& node = graph.nodes[index(n)];
    const Duration time = from_milliseconds(node.accelerator);
    (node.backward ? cost.backward_input : cost.forward) += time;
    trains = trains || node.backward;
    if (node.backward) continue;
    cost.output += whole_bytes(handed[index(n)]);
    cost.parameters += std::max<Bytes>(0, whole_bytes(node.size) - whole_bytes(handed[index(n)]));
  }
  if (trains) cost.gradients = cost.parameters;
  if (trains && cost.parameters > 0) {
    cost.backward_weight = cost.backward_input / 2;
    cost.backward_input -= cost.backward_weight;
  }
  cost.provenance = Provenance::measured;
  return cost;
}

/// A layer is called by its first forward node.
std::string name_of(const DnnGraph& graph, const std::vector<int>& nodes) {
  for (const int node : nodes) {
    if (!graph.nodes[index(node)].backward) return graph.nodes[index(node)].name;
  }
  return graph.nodes[index(nodes.front())].name;
}

Profile unordered_profile(const DnnGraph& graph, const DnnLayers& layers, const std::string& file) {
  constexpr Bytes element = 4;
  Profile profile;
  profile.model.name = stem_of_content(file);
  profile.model.edges = layers.edges;
  ProfileEntry entry;
  entry.setting = {.device = "generic", .microbatch = 1};
  const std::vector<double> handed = handed_on(graph, layers);
  for (const std::vector<int>& nodes : layers.nodes) {
    const LayerCost cost = cost_of(graph, nodes, handed);
    profile.model.layers.push_back({.name = name_of(graph, nodes),
                                    .kind = LayerKind::opaque,
                                    .parameters = cost.parameters / element,
                                    .output_elements = cost.output / element});
    entry.layers.push_back(cost);
  }
  profile.entries.push_back(std::move(entry));
  return profile;
}

/// Bytes per second that the costs stand for, as the tool adds them: the median over the edges.
Bandwidth bandwidth_of(const DnnGraph& graph) {
  std::vector<double> rates;
  for (const DnnEdge& edge : graph.edges) {
    const double cost = graph.nodes[index(edge.from)].cost;
    if (cost > 0 && edge.bytes > 0) rates.push_back(edge.bytes / (cost * 1e-3));
  }
  if (rates.empty()) return Bandwidth::unlimited();
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  constexpr double most = 1e18;
  return {std::max<std::int64_t>(1, std::llround(std::min(*middle, most)))};
}

std::vector<std::string> warnings_for(const Bandwidth& bandwidth) {
  if (static_cast<double>(bandwidth.bytes_per_second) < fastest_plausible) return {};
  if (bandwidth.is_unlimited()) return {};
  return {concat("the edges' costs in milliseconds stand for ", format_bandwidth(bandwidth),
                 ", which looks like seconds; dnn-partitioning adds them to milliseconds of "
                 "compute, and so do we: multiply \"cost\" by 1000 if it is seconds")};
}

}  // namespace

DnnLayers dnn_layers(const DnnGraph& graph, const std::string& file) {
  return at_file(file, [&] {
    const DnnLayers layers = unordered_layers(graph);
    Profile profile = unordered_profile(graph, layers, file);
    const std::vector<int> order = put_in_order(profile);
    DnnLayers ordered{.nodes = {}, .edges = profile.model.edges};
    for (const int layer : order) ordered.nodes.push_back(layers.nodes[index(layer)]);
    return ordered;
  });
}

bool looks_like_dnn_partitioning(std::string_view content) {
  return content.find("\"maxFPGAs\"") != std::string_view::npos &&
         content.find("\"fpgaLatency\"") != std::string_view::npos;
}

Profile import_dnn_partitioning(std::string_view content, const std::string& file) {
  const DnnGraph graph = read_dnn_partitioning_graph(content, file);
  return at_file(file, [&] {
    Profile profile = unordered_profile(graph, unordered_layers(graph), file);
    put_in_order(profile);
    const Bandwidth bandwidth = bandwidth_of(graph);
    profile.devices = OwnDevices{.count = std::max(1, graph.accelerators),
                                 .processors = graph.processors,
                                 .bandwidth = bandwidth,
                                 .memory = whole_bytes(graph.memory)};
    profile.warnings = warnings_for(bandwidth);
    profile.source =
        "dnn-partitioning input: milliseconds and bytes on an accelerator; microbatch 1 stands for "
        "what was measured; backward split evenly between input and weights";
    return profile;
  });
}

}  // namespace stagecraft
