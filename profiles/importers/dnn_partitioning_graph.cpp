#include "profiles/importers/dnn_partitioning_graph.hpp"

#include <cmath>

#include "profiles/importers/figures.hpp"
#include "profiles/model_graph.hpp"

namespace stagecraft {

namespace {

constexpr int most_devices_of_a_kind = 10'000;
constexpr double most_milliseconds = most_foreign_seconds * 1e3;

/// Published files write 0 and 1 as well as false and true.
bool read_flag(const Json& json) {
  return json.is_boolean() ? json.boolean() : json.integer(0, 1) == 1;
}

DnnNode read_node(const Json& json) {
  DnnNode node{.name = json.contains("name") ? json["name"].string() : "node",
               .processor = read_figure(json["cpuLatency"], most_milliseconds),
               .accelerator = read_figure(json["fpgaLatency"], most_milliseconds),
               .accelerated = read_flag(json["supportedOnFpga"]),
               .backward = read_flag(json["isBackwardNode"])};
  if (json.contains("size")) node.size = read_figure(json["size"], most_foreign_bytes);
  if (json.contains("colorClass")) node.color = json["colorClass"].integer();
  return node;
}

/// The cost belongs to the node: its tensor crosses a boundary once, whoever reads it.
void read_edge(DnnGraph& graph, const Json& json, const NodeNumbers& numbers,
               std::vector<bool>& has_cost) {
  const int from = numbers.find(json["sourceId"]);
  const int to = numbers.find(json["destId"]);
  const double cost = read_figure(json["cost"], most_milliseconds);
  DnnNode& node = graph.nodes[static_cast<std::size_t>(from)];
  constexpr double tolerance = 1e-6;  // the tool's own
  if (has_cost[static_cast<std::size_t>(from)] && std::abs(node.cost - cost) > tolerance) {
    json["cost"].fail(concat("\"", node.name, "\" has outgoing edges of cost ", node.cost, " and ",
                             cost, ", but its output is one tensor"));
  }
  if (!has_cost[static_cast<std::size_t>(from)]) node.cost = cost;
  has_cost[static_cast<std::size_t>(from)] = true;
  if (node.backward && !graph.nodes[static_cast<std::size_t>(to)].backward)
    json.fail(concat("an edge leads from the backward node \"", node.name, "\" to a forward node"));
  const double bytes = json.contains("size") ? read_figure(json["size"], most_foreign_bytes) : 0;
  graph.edges.push_back({from, to, bytes});
}

void refuse_cycle_of(const DnnGraph& graph, const std::string& file) {
  Model model{.name = file};
  for (const DnnNode& node : graph.nodes) model.layers.push_back({.name = node.name});
  for (const DnnEdge& edge : graph.edges) model.edges.push_back({edge.from, edge.to});
  at_file(file, [&] { refuse_cycle(model); });
}

}  // namespace

DnnGraph read_dnn_partitioning_graph(std::string_view content, const std::string& file) {
  const Json json = Json::parse(std::string(content), file);
  DnnGraph graph{.memory = read_figure(json["maxSizePerFPGA"], 1e18),
                 .accelerators = json["maxFPGAs"].small_integer(0, most_devices_of_a_kind),
                 .processors = json["maxCPUs"].small_integer(0, most_devices_of_a_kind)};
  if (graph.accelerators + graph.processors == 0)
    json["maxFPGAs"].fail("expected at least one device, but maxFPGAs and maxCPUs are 0");
  NodeNumbers numbers;
  std::vector<std::string> names;
  for (const Json& node : read_nodes(json["nodes"])) {
    numbers.add(node["id"]);
    graph.nodes.push_back(read_node(node));
    names.push_back(graph.nodes.back().name);
  }
  names = distinct(std::move(names));
  for (std::size_t n = 0; n < names.size(); ++n) graph.nodes[n].name = names[n];
  std::vector<bool> has_cost(graph.nodes.size(), false);
  for (const Json& edge : json["edges"].elements()) read_edge(graph, edge, numbers, has_cost);
  refuse_cycle_of(graph, file);
  return graph;
}

}  // namespace stagecraft
