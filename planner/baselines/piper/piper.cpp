// Piper's split (see piper_split.hpp), on its own inputs with their exact figures, or on any
// profile.
//
// On a profile, a layer can run plainly or recompute (one more forward, and only its output kept),
// at each tensor-parallel degree that the profile has entries for; an edge carries the layer's
// output, and all links are as slow as the slowest.

#include <algorithm>
#include <set>

#include "planner/baselines/baselines.hpp"
#include "planner/baselines/compatibility.hpp"
#include "planner/baselines/own_figures.hpp"
#include "planner/baselines/piper/piper_split.hpp"
#include "planner/baselines/piper/piper_stages.hpp"
#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/importers/piper_graph.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Piper's tables are over pairs of downsets.
constexpr std::int64_t most_downsets = 1500;

/// What the problem says in place of the file.
void set_devices(PiperGraph& graph, const Problem& problem) {
  constexpr double fastest = 1e30;
  const Bandwidth link = slowest_link(problem).point_to_point;
  graph.devices = usable_devices(problem);
  graph.memory = usable_memory(problem);
  graph.bandwidth = link.is_unlimited() ? fastest : static_cast<double>(link.bytes_per_second);
  constexpr std::int64_t most_microbatches = 1'000'000'000;
  graph.microbatches = static_cast<int>(
      std::min(problem.global_batch / problem.microbatches.front(), most_microbatches));
}

bool is_wanted(const Problem& problem, int degree) {
  const auto& wanted = problem.tensor_parallel;
  return std::find(wanted.begin(), wanted.end(), degree) != wanted.end();
}

/// Degrees that the profile has, but the problem does not ask for.
void drop_unwanted_degrees(PiperGraph& graph, const Problem& problem) {
  for (const ProfileEntry& entry : problem.profile.entries) {
    const int degree = entry.setting.tensor_parallel;
    if (degree == 1 || is_wanted(problem, degree)) continue;
    for (PiperNode& node : graph.nodes) node.choices.erase(degree);
  }
}

/// The file's own graph, with the degrees that are asked for.
PiperGraph graph_of_file(const Problem& problem) {
  PiperGraph graph = piper_graph_of_layers(problem.source.content, problem.source.path);
  drop_unwanted_degrees(graph, problem);
  return graph;
}

std::vector<PiperChoice> choices_of(const LayerCost& cost, bool may_recompute) {
  const Bytes kept = cost.saved + cost.output;
  PiperChoice plain{
      .name = "vanilla",
      .time = seconds(cost.forward + cost.backward()),
      .parameters = static_cast<double>(cost.parameters),
      .memory_per_microbatch = static_cast<double>(kept),
      .memory_fixed = static_cast<double>(cost.parameters + cost.gradients + cost.optimizer),
      .sync_in = {},
      .sync_out = {}};
  if (!may_recompute) return {plain};
  PiperChoice slow = plain;
  slow.name = "activation recomp";
  slow.time += seconds(cost.forward);
  slow.memory_per_microbatch = static_cast<double>(cost.output);
  return {plain, slow};
}

/// Degrees that the profile was measured at, and 1.
std::set<int> degrees_of(const Problem& problem) {
  std::set<int> degrees{1};
  for (const ProfileEntry& entry : problem.profile.entries) {
    const int degree = entry.setting.tensor_parallel;
    if (is_wanted(problem, degree) && was_measured(problem, degree)) degrees.insert(degree);
  }
  return degrees;
}

PiperGraph graph_of_profile(const Problem& problem) {
  const auto& allowed = problem.recompute;
  const bool may_recompute =
      std::find(allowed.begin(), allowed.end(), Recompute::full) != allowed.end();
  PiperGraph graph;
  for (const Layer& layer : problem.profile.model.layers) {
    graph.nodes.push_back({.name = layer.name, .choices = {}});
  }
  std::vector<LayerCost> costs;
  for (const int degree : degrees_of(problem)) {
    costs = costs_at(problem, degree);
    for (std::size_t n = 0; n < costs.size(); ++n) {
      graph.nodes[n].choices[degree] = choices_of(costs[n], may_recompute);
    }
  }
  costs = costs_at(problem, 1);
  for (const Edge& edge : problem.profile.model.edges) {
    graph.edges.push_back(
        {edge.from, edge.to, static_cast<double>(costs[index(edge.from)].output)});
    for (auto& [degree, choices] : graph.nodes[index(edge.from)].choices) {
      for (PiperChoice& choice : choices) choice.sync_out[edge.to] = 0;
    }
    for (auto& [degree, choices] : graph.nodes[index(edge.to)].choices) {
      for (PiperChoice& choice : choices) choice.sync_in[edge.from] = 0;
    }
  }
  return graph;
}

/// "1, 2": the degrees that layers have figures for; "none".
std::string known_degrees(const PiperGraph& graph) {
  std::string text;
  for (const auto& [degree, choices] : graph.nodes.front().choices) {
    text += concat(text.empty() ? "" : ", ", degree);
  }
  return text.empty() ? "none" : text;
}

SearchResult infeasible(PiperGraph graph, const std::stop_token& stop) {
  NoStages why{.strategy = "piper",
               .none = concat("no split over ", graph.devices, " devices"),
               .counts = "fits the stages' memory, as Piper counts it",
               .memory = graph.memory,
               .otherwise = {}};
  graph.memory = unlimited_memory;
  if (!split_by_piper(graph, most_downsets, stop)) {
    why.otherwise =
        concat("stages with replicas at the tensor-parallel degrees that are asked for and known (",
               known_degrees(graph), ") cannot take all of them");
  }
  SearchResult result = no_stages(why);
  result.interrupted = stop.stop_requested();
  if (result.interrupted) result.infeasible.reset();
  return result;
}

}  // namespace

SearchResult search_piper(const Problem& problem, const SearchControl& control) {
  const bool has_own_file = looks_like_piper(problem.source.content);
  PiperGraph graph = has_own_file ? graph_of_file(problem) : graph_of_profile(problem);
  if (!is_wanted(problem, 1)) {
    for (PiperNode& node : graph.nodes) node.choices.erase(1);
  }
  set_devices(graph, problem);
  const std::optional<PiperSplit> split = split_by_piper(graph, most_downsets, control.stop);
  if (!split) return infeasible(graph, control.stop);
  SearchResult result = foreign_result(problem, "piper", piper_stages(graph, split->stages),
                                       {.name = "time per microbatch",
                                        .value = split->time,
                                        .unit = "s",
                                        .lower_bound = split->lower_bound},
                                       split->parts);
  result.interrupted = control.stop.stop_requested();
  return result;
}

}  // namespace stagecraft
