#include "profiles/importers/pipedream_graph.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "profiles/error.hpp"
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
struct GraphLine {
  const std::string* file = nullptr;
  int number = 0;
  std::string text;

  [[noreturn]] void fail(int column, const std::string& message) const {
    throw Error(ErrorKind::input, message, SourcePlace{*file, number, column});
  }
};

std::vector<Piece> pieces_of(const GraphLine& line, std::string_view between) {
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

/// Sums of sizes stay within 64 bits.
Bytes read_size(const std::string& text) {
  constexpr Bytes most = 1'000'000'000'000'000;
  const Bytes size = parse_bytes(text + "B");
  if (size > most) fail("\"", text, "\" is above ", format_bytes(most));
  return size;
}

/// A list `[a; b; c]` (several tensors) counts as its sum.
Bytes read_sizes(const std::string& text) {
  if (!text.starts_with('[') || !text.ends_with(']')) return read_size(text);
  const std::vector<std::string> parts = split(text.substr(1, text.size() - 2), ';');
  constexpr std::size_t most_parts = 1000;
  if (parts.size() > most_parts) fail("more than ", most_parts, " tensors");
  Bytes sum = 0;
  for (const std::string& part : parts) sum += read_size(trim(part));
  return sum;
}

void set_figure(PipedreamNode& node, std::string_view key, const std::string& value) {
  if (key == "forward_compute_time") node.forward = parse_duration(value + "ms");
  if (key == "backward_compute_time") node.backward = parse_duration(value + "ms");
  if (key == "activation_size") node.activation = read_sizes(value);
  if (key == "parameter_size") node.parameters = read_sizes(value);
}

/// "key=value, key=value": the four figures, each exactly once.
void read_figures(PipedreamNode& node, const GraphLine& line, const Piece& figures) {
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

/// "stage_id=3".
int read_stage(const GraphLine& line, const Piece& piece) {
  constexpr std::string_view key = "stage_id=";
  constexpr int most = 100'000;
  const std::string_view text = piece.text;
  const std::string_view digits = text.starts_with(key) ? text.substr(key.size()) : "";
  int stage = digits.empty() ? most + 1 : 0;
  for (const char c : digits) {
    const bool is_digit = c >= '0' && c <= '9';
    stage = is_digit && stage <= most ? 10 * stage + (c - '0') : most + 1;
  }
  if (stage > most) {
    line.fail(piece.column, concat("expected stage_id=… with a number from 0 to ", most,
                                   ", found \"", text, "\""));
  }
  return stage;
}

/// An edge whose ends are looked up once all nodes are known.
struct NamedEdge {
  GraphLine line;
  Piece from, to;
};

class GraphReader {
 public:
  explicit GraphReader(const std::string& file) : file_(file) {}

  PipedreamGraph read(std::string_view content) {
    int number = 0;
    for (const std::string& text : split(content, '\n')) read_line({&file_, ++number, text});
    for (const NamedEdge& edge : edges_) {
      graph_.edges.push_back({find(edge.line, edge.from), find(edge.line, edge.to)});
    }
    return std::move(graph_);
  }

 private:
  void read_line(GraphLine line) {
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

  void add_node(const GraphLine& line, const std::vector<Piece>& pieces) {
    PipedreamNode node{.name = pieces[0].text, .description = pieces[1].text, .line = line.number};
    if (node.name.empty()) line.fail(1, "the node has no name");
    read_figures(node, line, pieces[2]);
    if (pieces.size() == 4) node.stage = read_stage(line, pieces[3]);
    const auto [entry, added] = index_.emplace(node.name, static_cast<int>(graph_.nodes.size()));
    if (!added) {
      const int first = graph_.nodes[static_cast<std::size_t>(entry->second)].line;
      line.fail(1, concat("the node ", node.name, " is defined twice, first in line ", first));
    }
    graph_.nodes.push_back(std::move(node));
  }

  int find(const GraphLine& line, const Piece& name) const {
    const auto entry = index_.find(name.text);
    if (entry == index_.end())
      line.fail(name.column, concat("there is no node \"", name.text, "\""));
    return entry->second;
  }

  const std::string& file_;
  PipedreamGraph graph_;
  std::map<std::string, int> index_;
  std::vector<NamedEdge> edges_;
};

}  // namespace

PipedreamGraph read_pipedream_graph(std::string_view content, const std::string& file) {
  return GraphReader(file).read(content);
}

std::string pipedream_layer_name(const PipedreamNode& node) {
  return node.name + "." + trim(node.description.substr(0, node.description.find('(')));
}

}  // namespace stagecraft
