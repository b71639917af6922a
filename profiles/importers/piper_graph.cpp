#include "profiles/importers/piper_graph.hpp"

#include <set>

#include "profiles/importers/figures.hpp"

namespace stagecraft {

namespace {

constexpr int most_parallel = 10'000;
constexpr int most_microbatches = 10'000'000;

/// {"3": 8192.0}: bytes by the identifier of a neighbour.
std::map<int, double> read_sync(const Json& json, const NodeNumbers& numbers) {
  std::map<int, double> bytes;
  for (const std::string& id : json.names()) {
    const int node = numbers.find(id);
    if (node < 0) json[id].fail(concat("there is no node \"", id, "\""));
    bytes[node] = read_figure(json[id], most_foreign_bytes);
  }
  return bytes;
}

PiperChoice read_choice(const Json& json, const NodeNumbers& numbers) {
  return {.name = json["id"].string(),
          .time = read_figure(json["timePerSample"], most_foreign_seconds),
          .parameters = read_figure(json["parameterSize"], most_foreign_bytes),
          .memory_per_microbatch = read_figure(json["memoryUsageA"], most_foreign_bytes),
          .memory_fixed = read_figure(json["memoryUsageB"], most_foreign_bytes),
          .sync_in = read_sync(json["syncTimeFw"], numbers),
          .sync_out = read_sync(json["syncTimeBw"], numbers)};
}

int read_degree(const Json& choices, const std::string& text) {
  int degree = 0;
  for (const char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    degree = is_digit && degree <= most_parallel ? 10 * degree + (c - '0') : most_parallel + 1;
  }
  if (degree < 1 || degree > most_parallel) {
    choices[text].fail(concat("expected a tensor-parallel degree from 1 to ", most_parallel,
                              ", found \"", text, "\""));
  }
  return degree;
}

void read_choices(PiperNode& node, const Json& choices, const NodeNumbers& numbers) {
  for (const std::string& text : choices.names()) {
    std::vector<PiperChoice>& of_degree = node.choices[read_degree(choices, text)];
    for (const Json& choice : choices[text].elements()) {
      of_degree.push_back(read_choice(choice, numbers));
    }
    if (of_degree.empty() || of_degree.size() > 2) {
      choices[text].fail(
          concat("expected one or two ways to run the node, found ", of_degree.size()));
    }
  }
  if (!node.choices.contains(1))
    choices.fail("the member \"1\" is missing: how the node runs on a single device");
}

PiperEdge read_edge(const Json& json, const NodeNumbers& numbers) {
  return {.from = numbers.find(json["sourceId"]),
          .to = numbers.find(json["destId"]),
          .bytes = read_figure(json["communicationCost"], most_foreign_bytes)};
}

void read_edges(PiperGraph& graph, const Json& json, const NodeNumbers& numbers) {
  std::set<std::pair<int, int>> seen;
  for (const Json& element : json.elements()) {
    const PiperEdge edge = read_edge(element, numbers);
    if (!seen.insert({edge.from, edge.to}).second) element.fail("the edge is listed twice");
    graph.edges.push_back(edge);
  }
}

/// Each choice has the bytes of exactly the node's edges.
void require_syncs(const PiperGraph& graph, const Json& nodes) {
  std::vector<std::set<int>> inputs(graph.nodes.size());
  std::vector<std::set<int>> readers(graph.nodes.size());
  for (const PiperEdge& edge : graph.edges) {
    inputs[static_cast<std::size_t>(edge.to)].insert(edge.from);
    readers[static_cast<std::size_t>(edge.from)].insert(edge.to);
  }
  const auto is_over = [](const std::map<int, double>& bytes, const std::set<int>& neighbours) {
    std::set<int> given;
    for (const auto& [node, value] : bytes) given.insert(node);
    return given == neighbours;
  };
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const auto& [degree, choices] : graph.nodes[n].choices) {
      for (const PiperChoice& choice : choices) {
        if (is_over(choice.sync_in, inputs[n]) && is_over(choice.sync_out, readers[n])) continue;
        nodes[n]["TMPCs"].fail(
            concat("degree ", degree, ", \"", choice.name,
                   "\": syncTimeFw must list the nodes that edges come from, and syncTimeBw those "
                   "that they go to"));
      }
    }
  }
}

}  // namespace

PiperGraph read_piper_graph(std::string_view content, const std::string& file) {
  const Json json = Json::parse(std::string(content), file);
  PiperGraph graph{.memory = read_figure(json["maxMemoryPerDevice"], 1e18),
                   .bandwidth = read_figure(json["bandwidth"], 1e18),
                   .devices = json["maxDevices"].small_integer(1, most_parallel)};
  if (graph.bandwidth < 1) json["bandwidth"].fail("expected at least 1 byte per second");
  // Piper's README calls it maxBatchSize, its code and its files do not.
  const bool as_in_readme = !json.contains("mbsInBatch") && json.contains("maxBatchSize");
  graph.microbatches =
      json[as_in_readme ? "maxBatchSize" : "mbsInBatch"].small_integer(1, most_microbatches);
  const std::vector<Json> nodes = read_nodes(json["nodes"]);
  NodeNumbers numbers;
  std::vector<std::string> names;
  for (const Json& node : nodes) {
    numbers.add(node["id"]);
    names.push_back(node.contains("name") ? node["name"].string() : "node");
  }
  names = distinct(std::move(names));
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    graph.nodes.push_back({.id = nodes[n]["id"].integer(), .name = names[n], .choices = {}});
    read_choices(graph.nodes.back(), nodes[n]["TMPCs"], numbers);
  }
  read_edges(graph, json["edges"], numbers);
  require_syncs(graph, json["nodes"]);
  return graph;
}

}  // namespace stagecraft
