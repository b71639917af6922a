#include "profiles/model_graph.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/connected_components.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <queue>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS>;
using Undirected = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS>;
using Vertex = boost::graph_traits<Graph>::vertex_descriptor;

template <class AnyGraph>
AnyGraph graph_of(const Model& model) {
  AnyGraph graph(model.layers.size());
  for (const Edge& edge : model.edges) {
    boost::add_edge(static_cast<Vertex>(edge.from), static_cast<Vertex>(edge.to), graph);
  }
  return graph;
}

[[noreturn]] void refuse(const LayerPlace& place, int layer, std::string message) {
  throw Error(ErrorKind::input, std::move(message), place ? place(layer) : std::nullopt);
}

/// Follows the search's tree; an edge back to a layer that is still open closes a cycle.
class CycleFinder : public boost::dfs_visitor<> {
 public:
  CycleFinder(const Model& model, const LayerPlace& place)
      : model_(&model), place_(&place), parent_(model.layers.size()) {}

  void tree_edge(boost::graph_traits<Graph>::edge_descriptor edge, const Graph& graph) {
    parent_[boost::target(edge, graph)] = boost::source(edge, graph);
  }

  void back_edge(boost::graph_traits<Graph>::edge_descriptor edge, const Graph& graph) const {
    const Vertex first = boost::target(edge, graph);
    std::vector<Vertex> cycle{first};
    for (Vertex layer = boost::source(edge, graph); layer != first; layer = parent_[layer]) {
      cycle.push_back(layer);
    }
    cycle.push_back(first);
    std::string names;
    for (auto layer = cycle.rbegin(); layer != cycle.rend(); ++layer) {
      names += names.empty() ? "" : " -> ";
      names += name(*layer);
    }
    refuse(
        *place_, static_cast<int>(first),
        concat("model ", model_->name, ": the layers form a cycle: ", names,
               "; expected an order in which each comes behind all it reads: remove one of these "
               "edges, or turn it around"));
  }

 private:
  std::string name(Vertex layer) const { return "\"" + model_->layers[layer].name + "\""; }

  const Model* model_;
  const LayerPlace* place_;
  std::vector<Vertex> parent_;
};

/// Of all layers whose inputs are there, always the one listed first: so the order changes only
/// where it has to.
std::vector<int> stable_order(const Graph& graph) {
  std::vector<std::size_t> missing(boost::num_vertices(graph));
  std::priority_queue<Vertex, std::vector<Vertex>, std::greater<>> ready;
  for (Vertex layer = 0; layer < missing.size(); ++layer) {
    missing[layer] = boost::in_degree(layer, graph);
    if (missing[layer] == 0) ready.push(layer);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const Vertex layer = ready.top();
    ready.pop();
    order.push_back(static_cast<int>(layer));
    for (auto [reader, end] = boost::adjacent_vertices(layer, graph); reader != end; ++reader) {
      if (--missing[*reader] == 0) ready.push(*reader);
    }
  }
  return order;
}

}  // namespace

void refuse_cycle(const Model& model, const LayerPlace& place) {
  const Graph graph = graph_of<Graph>(model);
  boost::depth_first_search(graph, boost::visitor(CycleFinder(model, place)));
}

void refuse_parts(const Model& model, const LayerPlace& place) {
  const auto graph = graph_of<Undirected>(model);
  std::vector<std::size_t> part(model.layers.size());
  const std::size_t parts = boost::connected_components(graph, part.data());
  if (parts <= 1) return;
  std::vector<std::size_t> sizes(parts);
  for (const std::size_t of_layer : part) ++sizes[of_layer];
  const auto first_of = [&](auto which) {
    const auto one = static_cast<std::size_t>(which - sizes.begin());
    return static_cast<std::size_t>(std::ranges::find(part, one) - part.begin());
  };
  // The last of the smallest: what was forgotten is rarely the beginning.
  const std::size_t largest = first_of(std::ranges::max_element(sizes));
  const std::size_t smallest =
      first_of(std::ranges::min_element(sizes.rbegin(), sizes.rend()).base() - 1);
  refuse(place, static_cast<int>(smallest),
         concat("model ", model.name, ": no edges connect the layers \"",
                model.layers[largest].name, "\" and \"", model.layers[smallest].name,
                "\"; expected one graph: add the edge between them that is missing, or plan each "
                "part by itself"));
}

Model reordered(Model model, const std::vector<int>& order) {
  std::vector<int> position(order.size());
  std::vector<Layer> layers;
  for (const int layer : order) {
    position[static_cast<std::size_t>(layer)] = static_cast<int>(layers.size());
    layers.push_back(std::move(model.layers[static_cast<std::size_t>(layer)]));
  }
  const auto moved = [&](int layer) { return position[static_cast<std::size_t>(layer)]; };
  model.layers = std::move(layers);
  for (Edge& edge : model.edges) edge = {moved(edge.from), moved(edge.to)};
  for (Tie& tie : model.ties) tie = {moved(tie.owner), moved(tie.user), tie.parameters};
  std::sort(model.edges.begin(), model.edges.end(), [](const Edge& a, const Edge& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  return model;
}

Model in_topological_order(Model model) {
  refuse_cycle(model);
  const std::vector<int> order = stable_order(graph_of<Graph>(model));
  return reordered(std::move(model), order);
}

}  // namespace stagecraft
