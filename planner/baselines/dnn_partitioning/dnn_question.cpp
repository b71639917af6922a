#include "planner/baselines/dnn_partitioning/dnn_question.hpp"

#include <algorithm>

#include "planner/baselines/own_figures.hpp"
#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

int processors_of(const Problem& problem) {
  return problem.profile.devices ? problem.profile.devices->processors : 0;
}

/// What the file's costs are multiplied with where the links are not the file's own.
double cost_factor(const Problem& problem) {
  const Bandwidth link = slowest_link(problem).point_to_point;
  if (!problem.profile.devices || usable_devices(problem) < 2) return 1;
  const Bandwidth own = problem.profile.devices->bandwidth;
  if (link == own || own.is_unlimited()) return 1;
  if (link.is_unlimited()) return 0;
  return static_cast<double>(own.bytes_per_second) / static_cast<double>(link.bytes_per_second);
}

MaxLoadProblem problem_of_file(const Problem& problem) {
  const DnnGraph graph = read_dnn_partitioning_graph(problem.source.content, problem.source.path);
  MaxLoadProblem question = question_of(graph, dnn_layers(graph, problem.source.path));
  question.accelerators = usable_devices(problem);
  question.processors = processors_of(problem);
  question.memory = usable_memory(problem);
  const double factor = cost_factor(problem);
  for (MaxLoadTensor& tensor : question.tensors) tensor.cost *= factor;
  return question;
}

double milliseconds(Duration duration) {
  return static_cast<double>(duration.count()) / 1e6;
}

MaxLoadProblem problem_of_profile(const Problem& problem) {
  const std::vector<LayerCost> costs = costs_at(problem, 1);
  MaxLoadProblem result{.nodes = {},
                        .edges = problem.profile.model.edges,
                        .tensors = {},
                        .accelerators = usable_devices(problem),
                        .processors = 0,
                        .memory = usable_memory(problem)};
  const Link link = slowest_link(problem);
  for (std::size_t l = 0; l < costs.size(); ++l) {
    const LayerCost& cost = costs[l];
    const int messages = cost.backward() > Duration{0} ? 2 : 1;
    const Bytes size = cost.parameters + cost.gradients + cost.optimizer + cost.saved + cost.output;
    result.nodes.push_back({.accelerator = milliseconds(cost.forward + cost.backward()),
                            .size = static_cast<double>(size),
                            .members = {static_cast<int>(l)}});
    result.tensors.push_back(
        {messages * milliseconds(message_time(link, cost.output)), {static_cast<int>(l)}});
  }
  for (const Edge& edge : problem.profile.model.edges) {
    result.tensors[index(edge.from)].nodes.push_back(edge.to);
  }
  return result;
}

}  // namespace

MaxLoadProblem question_of(const DnnGraph& graph, const DnnLayers& layers) {
  MaxLoadProblem question;
  std::vector<int> layer_of(graph.nodes.size());
  for (std::size_t l = 0; l < layers.nodes.size(); ++l) {
    MaxLoadNode& layer = question.nodes.emplace_back();
    layer.members = {static_cast<int>(l)};
    for (const int n : layers.nodes[l]) {
      const DnnNode& node = graph.nodes[index(n)];
      layer_of[index(n)] = static_cast<int>(l);
      layer.accelerator += node.accelerator;
      layer.processor += node.processor;
      layer.size += node.size;
      layer.accelerated = layer.accelerated && node.accelerated;
    }
  }
  question.edges = layers.edges;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    question.tensors.push_back({graph.nodes[n].cost, {layer_of[n]}});
  }
  for (const DnnEdge& edge : graph.edges) {
    std::vector<int>& nodes = question.tensors[index(edge.from)].nodes;
    const int reader = layer_of[index(edge.to)];
    if (std::find(nodes.begin(), nodes.end(), reader) == nodes.end()) nodes.push_back(reader);
  }
  return question;
}

MaxLoadProblem max_load_problem(const Problem& problem) {
  const bool has_own_file = looks_like_dnn_partitioning(problem.source.content);
  return has_own_file ? problem_of_file(problem) : problem_of_profile(problem);
}

std::string runs_nowhere(const Problem& problem, const MaxLoadProblem& question) {
  if (question.processors > 0) return "";
  for (const MaxLoadNode& node : question.nodes) {
    if (node.accelerated || node.members.empty()) continue;
    const auto& layers = problem.profile.model.layers;
    return concat("layer ", layers[index(node.members.front())].name,
                  " runs on CPUs only, and there are none; leave CLUSTER out to have the file's");
  }
  return "";
}

}  // namespace stagecraft
