// dnn-partitioning's split of the throughput problem (see max_load.hpp), on its own inputs with
// their exact figures, or on any profile.
//
// On a profile, a layer's time is its forward and backward, its tensor costs a message of its
// output (and one back where it trains) on the slowest link, and its size is what one microbatch
// keeps. There are no CPUs then.

#include <algorithm>

#include "planner/strategies.hpp"
#include "planner/strategies/compatibility.hpp"
#include "planner/strategies/dnn_partitioning/dnn_question.hpp"
#include "planner/strategies/dnn_partitioning/max_load.hpp"
#include "planner/strategies/own_figures.hpp"
#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/importers/dnn_partitioning_graph.hpp"

namespace stagecraft {

namespace {

/// Lattices of more downsets take minutes.
constexpr std::int64_t most_downsets = 1'000'000;

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

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
    result.tensors[at(edge.from)].nodes.push_back(edge.to);
  }
  return result;
}

SearchResult infeasible(const MaxLoadProblem& problem) {
  SearchResult result{.plans = {}, .infeasible = {}, .strategy = "dnn-partitioning"};
  result.infeasible = Infeasible{
      .reason = concat("no contiguous split over ", problem.accelerators,
                       " devices fits the layers' sizes, as dnn-partitioning counts them, into ",
                       format_bytes(static_cast<Bytes>(problem.memory)), " each"),
      .short_by = 0,
      .remedies = {}};
  return result;
}

/// Our evaluator has no CPUs beside the cluster's devices.
void reject_if_on_processor(Candidate& candidate, const MaxLoadSplit& split) {
  for (std::size_t part = 0; part < split.parts.size(); ++part) {
    if (!split.parts[part].on_processor) continue;
    candidate.prediction.reset();
    candidate.plan.predicted.reset();
    candidate.rejected =
        concat("dnn-partitioning puts stage ", part,
               " on a CPU of the file, which our "
               "evaluator does not know; name a CLUSTER to split over its devices alone");
  }
}

}  // namespace

MaxLoadProblem question_of(const DnnGraph& graph, const DnnLayers& layers) {
  MaxLoadProblem question;
  std::vector<int> layer_of(graph.nodes.size());
  for (std::size_t l = 0; l < layers.nodes.size(); ++l) {
    MaxLoadNode& layer = question.nodes.emplace_back();
    layer.members = {static_cast<int>(l)};
    for (const int n : layers.nodes[l]) {
      const DnnNode& node = graph.nodes[at(n)];
      layer_of[at(n)] = static_cast<int>(l);
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
    std::vector<int>& nodes = question.tensors[at(edge.from)].nodes;
    const int reader = layer_of[at(edge.to)];
    if (std::find(nodes.begin(), nodes.end(), reader) == nodes.end()) nodes.push_back(reader);
  }
  return question;
}

SearchResult search_dnn_partitioning(const Problem& problem, const SearchControl& control) {
  const bool has_own_file = looks_like_dnn_partitioning(problem.source.content);
  const MaxLoadProblem question =
      has_own_file ? problem_of_file(problem) : problem_of_profile(problem);
  const std::optional<MaxLoadSplit> split =
      split_by_max_load(question, most_downsets, control.stop);
  if (!split) return infeasible(question);
  std::vector<ForeignStage> stages;
  for (const MaxLoadPart& part : split->parts) stages.push_back({.layers = part.members});
  SearchResult result = foreign_result(
      problem, "dnn-partitioning", stages,
      {.name = "max load", .value = split->load, .unit = "ms", .lower_bound = split->lower_bound},
      split->compared);
  reject_if_on_processor(result.plans.front(), *split);
  result.interrupted = control.stop.stop_requested();
  return result;
}

}  // namespace stagecraft
