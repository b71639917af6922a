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
#include <map>
#include <set>

#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/importers/linear_order.hpp"
#include "profiles/model_graph.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view separator = " -- ";

/// A piece of a line, and where it starts.
struct Piece {
  std::string text;
  int column = 1;
};

/// One line of the file; complaints about it name the place.
struct Line {
  const std::string* file = nullptr;
  int number = 0;
  std::string text;

  [[noreturn]] void fail(int column, const std::string& message) const {
    throw Error(ErrorKind::input, message, SourcePlace{*file, number, column});
  }
};

std::vector<Piece> pieces_of(const Line& line, std::string_view between) {
  std::vector<Piece> pieces;
  for (std::size_t start = 0;;) {
    const std::size_t end = line.text.find(between, start);
    const std::string raw = line.text.substr(start, end == std::string::npos ? end : end - start);
    const std::size_t blank = raw.find_first_not_of(" \t");
    const std::size_t first = start + (blank == std::string::npos ? 0 : blank);
    pieces.push_back({trim(raw), static_cast<int>(first) + 1});
    if (end == std::string::npos) return pieces;
    start = end + between.size();
  }
}

struct Node {
  std::string name;
  std::string description;
  Duration forward{0};
  Duration backward{0};
  Bytes activation = 0;
  Bytes parameters = 0;
  int line = 0;
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<Edge> edges;
};

/// A list `[a; b; c]` (several tensors) counts as its sum.
Bytes read_sizes(std::string_view text) {
  const bool list = text.starts_with('[') && text.ends_with(']');
  if (!list) return parse_bytes(std::string(text) + "B");
  Bytes sum = 0;
  for (const std::string& part : split(text.substr(1, text.size() - 2), ';')) {
    if (__builtin_add_overflow(sum, parse_bytes(part + "B"), &sum)) fail("the sum is too large");
  }
  return sum;
}

void set_figure(Node& node, std::string_view key, const std::string& value) {
  if (key == "forward_compute_time") node.forward = parse_duration(value + "ms");
  if (key == "backward_compute_time") node.backward = parse_duration(value + "ms");
  if (key == "activation_size") node.activation = read_sizes(value);
  if (key == "parameter_size") node.parameters = read_sizes(value);
}

/// "key=value, key=value": the four figures, each exactly once.
void read_figures(Node& node, const Line& line, const Piece& figures) {
  const std::vector<std::string> keys{"forward_compute_time", "backward_compute_time",
                                      "activation_size", "parameter_size"};
  std::set<std::string> seen;
  for (const std::string& part : split(figures.text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string key = trim(std::string_view(part).substr(0, equals));
    const bool known = std::find(keys.begin(), keys.end(), key) != keys.end();
    if (equals == std::string::npos || !known) {
      line.fail(figures.column,
                concat(node.name, ": expected ", join_words(keys), ", found \"", trim(part), "\""));
    }
    if (!seen.insert(key).second)
      line.fail(figures.column, concat(node.name, ": ", key, " is given twice"));
    try {
      set_figure(node, key, trim(std::string_view(part).substr(equals + 1)));
    } catch (const Error& error) {
      line.fail(figures.column, concat(node.name, ": ", key, ": ", error.message()));
    }
  }
  for (const std::string& key : keys) {
    if (!seen.contains(key)) line.fail(figures.column, concat(node.name, ": ", key, " is missing"));
  }
}

/// An edge whose ends are looked up once all nodes are known.
struct NamedEdge {
  Line line;
  Piece from, to;
};

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  Graph read(std::string_view content) {
    int number = 0;
    for (const std::string& text : split(content, '\n')) read_line({&file_, ++number, text});
    for (const NamedEdge& edge : edges_) {
      graph_.edges.push_back({find(edge.line, edge.from), find(edge.line, edge.to)});
    }
    return std::move(graph_);
  }

 private:
  void read_line(Line line) {
    while (!line.text.empty() &&
           std::string_view(" \t\r").find(line.text.back()) != std::string_view::npos) {
      line.text.pop_back();
    }
    if (line.text.empty()) return;
    const std::vector<Piece> pieces = pieces_of(line, separator);
    const bool has_figures = pieces.size() == 3 || pieces.size() == 4;
    if (pieces.size() == 2 && line.text.front() == '\t') {
      edges_.push_back({line, pieces[0], pieces[1]});
    } else if (has_figures && line.text.front() != '\t') {
      add_node(line, pieces);
    } else {
      line.fail(
          1,
          concat("expected a node `NAME -- DESCRIPTION -- forward_compute_time=…, "
                 "backward_compute_time=…, activation_size=…, parameter_size=…` or, after a tab, "
                 "an edge `NAME -- NAME`, found \"",
                 trim(line.text).substr(0, 60), "\""));
    }
  }

  void add_node(const Line& line, const std::vector<Piece>& pieces) {
    Node node{.name = pieces[0].text, .description = pieces[1].text, .line = line.number};
    if (node.name.empty()) line.fail(1, "the node has no name");
    read_figures(node, line, pieces[2]);
    const bool is_stage = pieces.size() == 3 || pieces[3].text.starts_with("stage_id=");
    if (!is_stage)
      line.fail(pieces[3].column, concat("expected stage_id=…, found \"", pieces[3].text, "\""));
    const auto [entry, added] = index_.emplace(node.name, static_cast<int>(graph_.nodes.size()));
    if (!added) {
      const int first = graph_.nodes[static_cast<std::size_t>(entry->second)].line;
      line.fail(1, concat("the node ", node.name, " is defined twice, first in line ", first));
    }
    graph_.nodes.push_back(std::move(node));
  }

  int find(const Line& line, const Piece& name) const {
    const auto entry = index_.find(name.text);
    if (entry == index_.end())
      line.fail(name.column, concat("there is no node \"", name.text, "\""));
    return entry->second;
  }

  const std::string& file_;
  Graph graph_;
  std::map<std::string, int> index_;
  std::vector<NamedEdge> edges_;
};

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

/// "node7.Conv2d": unique by its first part, readable by its second.
std::string layer_name(const Node& node) {
  return node.name + "." + trim(node.description.substr(0, node.description.find('(')));
}

LayerCost cost_of(const Node& node, Bytes input) {
  LayerCost cost;
  const bool has_weights = node.parameters > 0;
  cost.forward = node.forward;
  cost.backward_input = has_weights ? node.backward / 2 : node.backward;
  cost.backward_weight = node.backward - cost.backward_input;
  cost.saved = node.activation;
  cost.saved_for_weight = has_weights ? input + node.activation : 0;
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
    model.layers.push_back({.name = layer_name(node),
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
  refuse_cycle(profile.model);
  std::vector<Bytes> outputs;
  std::vector<Bytes> inputs(graph.nodes.size());
  for (const Node& node : graph.nodes) outputs.push_back(node.activation);
  for (const Edge& edge : profile.model.edges) {
    inputs[static_cast<std::size_t>(edge.to)] += outputs[static_cast<std::size_t>(edge.from)];
  }
  const std::vector<int> order = linear_order(profile.model, outputs);
  ProfileEntry entry;
  entry.setting = {.device = "v100", .microbatch = 1, .precision = Precision::float32};
  for (const int layer : order) {
    const auto index = static_cast<std::size_t>(layer);
    entry.layers.push_back(cost_of(graph.nodes[index], inputs[index]));
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
  const Graph graph = without_unread_items(without_inputs(Reader(file).read(content)));
  const auto fail_file = [&](const std::string& message) {
    throw Error(ErrorKind::input, message, SourcePlace{file, 0, 0});
  };
  if (graph.nodes.empty()) fail_file("the graph has no layers");
  try {
    return profile_of(graph, file);
  } catch (const Error& error) {
    fail_file(error.message());
    throw;
  }
}

}  // namespace stagecraft
