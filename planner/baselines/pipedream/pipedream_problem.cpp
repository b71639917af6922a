#include "planner/baselines/pipedream/pipedream_problem.hpp"

#include <algorithm>
#include <set>

#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/importers/pipedream_graph.hpp"

namespace stagecraft {

namespace {

/// The layer that their antichains start from: the first in the file of those that read nothing.
int first_source(const Problem& problem) {
  const Model& model = problem.profile.model;
  std::set<int> readers;
  for (const Edge& edge : model.edges) readers.insert(edge.to);
  if (looks_like_pipedream(problem.source.content)) {
    const PipedreamGraph graph = read_pipedream_graph(problem.source.content, problem.source.path);
    for (const PipedreamNode& node : graph.nodes) {
      for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
        if (readers.contains(static_cast<int>(layer))) continue;
        if (model.layers[layer].name.starts_with(node.name + ".")) return static_cast<int>(layer);
      }
    }
  }
  int first = 0;
  while (readers.contains(first)) ++first;
  return first;
}

bool by_microbatch(const Setting& a, const Setting& b) {
  return a.microbatch < b.microbatch;
}

}  // namespace

int devices_of(const Problem& problem) {
  const int available = device_count(problem.cluster);
  return std::min(problem.devices.value_or(available), available);
}

std::int64_t smallest_microbatch(const Space& space) {
  const auto& settings = space.settings();
  return std::min_element(settings.begin(), settings.end(), by_microbatch)->microbatch;
}

std::int64_t largest_microbatch(const Space& space) {
  const auto& settings = space.settings();
  return std::max_element(settings.begin(), settings.end(), by_microbatch)->microbatch;
}

std::vector<LayerCost> costs_of_first_device(const Problem& problem, const Space& space,
                                             std::int64_t microbatch) {
  const DeviceKind& kind = kind_of(space.cluster(), 0);
  return layer_costs(problem.profile, kind,
                     {.device = kind.name,
                      .microbatch = microbatch,
                      .sequence = problem.sequence,
                      .precision = problem.precision,
                      .kernels = problem.kernels});
}

PipedreamStates states_of(const Problem& problem, const Space& space, std::int64_t microbatch,
                          const StateLimit& limit) {
  const auto costs = costs_of_first_device(problem, space, microbatch);
  auto states = pipedream_states(problem.profile.model, costs, first_source(problem), limit.most);
  if (states) return *std::move(states);
  fail_usage("--strategy ", limit.name, ": the model can be cut in more than ", limit.most,
             " ways, too many for ", limit.planner, "; use --strategy exact");
}

std::vector<int> new_layers(const PipedreamState& state, std::vector<bool>& placed) {
  std::vector<int> layers;
  for (std::size_t layer = 0; layer < placed.size(); ++layer) {
    if (placed[layer] || (state.layers[layer / 64] >> (layer % 64) & 1) == 0) continue;
    placed[layer] = true;
    layers.push_back(static_cast<int>(layer));
  }
  return layers;
}

SearchResult no_plan(std::string_view name, const std::string& reason) {
  SearchResult result;
  result.strategy = std::string(name);
  result.infeasible = Infeasible{.reason = reason, .remedies = {}};
  return result;
}

void add_note(SearchResult& result, const std::string& note) {
  for (Candidate& candidate : result.plans) {
    if (candidate.prediction) candidate.prediction->notes.push_back(note);
  }
}

}  // namespace stagecraft
