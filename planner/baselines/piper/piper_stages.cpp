#include "planner/baselines/piper/piper_stages.hpp"

#include <algorithm>

#include "profiles/index.hpp"

namespace stagecraft {

PiperGraph piper_graph_of_layers(std::string_view content, const std::string& file) {
  const PiperGraph graph = read_piper_graph(content, file);
  const std::vector<int> order = piper_layer_order(graph, file);
  std::vector<int> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[index(order[i])] = static_cast<int>(i);
  const auto moved = [&](const std::map<int, double>& bytes) {
    std::map<int, double> result;
    for (const auto& [node, value] : bytes) result[place[index(node)]] = value;
    return result;
  };
  PiperGraph result = graph;
  for (std::size_t n = 0; n < order.size(); ++n) {
    PiperNode& node = result.nodes[index(place[n])];
    node = graph.nodes[n];
    for (auto& [degree, choices] : node.choices) {
      for (PiperChoice& choice : choices) {
        choice.sync_in = moved(choice.sync_in);
        choice.sync_out = moved(choice.sync_out);
      }
    }
  }
  for (PiperEdge& edge : result.edges) {
    edge.from = place[index(edge.from)];
    edge.to = place[index(edge.to)];
  }
  return result;
}

bool recomputes(const PiperNode& node, int tensor_parallel, int choice) {
  const auto& choices = node.choices.at(tensor_parallel);
  return std::any_of(choices.begin(), choices.end(), [&](const PiperChoice& other) {
    return other.time < choices[index(choice)].time;
  });
}

std::vector<ForeignStage> piper_stages(const PiperGraph& graph,
                                       const std::vector<PiperStage>& stages) {
  std::vector<ForeignStage> foreign;
  for (const PiperStage& stage : stages) {
    ForeignStage& added = foreign.emplace_back();
    added.layers = stage.nodes;
    added.replicas = stage.data_parallel;
    added.tensor_parallel = stage.tensor_parallel;
    for (std::size_t i = 0; i < stage.nodes.size(); ++i) {
      const PiperNode& node = graph.nodes[index(stage.nodes[i])];
      if (recomputes(node, stage.tensor_parallel, stage.choices[i])) {
        added.recompute = Recompute::full;
      }
    }
  }
  return foreign;
}

}  // namespace stagecraft
