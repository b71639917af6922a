// The rows of PipeDream's optimizer: its cost models, and a problem in its terms.

#include "planner/strategies/pipedream.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "planner/space.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/importers/pipedream_graph.hpp"

namespace stagecraft {

namespace {

/// Their optimizer needs 23 GB for 220 000 states, and an hour for two thousand on nested networks.
constexpr int most_states = 6000;

/// Innermost first, as many machines as the problem uses. Levels of one machine at either end
/// change nothing.
std::vector<PipedreamLevel> levels_of(const Cluster& cluster, int devices) {
  std::vector<PipedreamLevel> levels;
  for (auto level = cluster.levels.rbegin(); level != cluster.levels.rend(); ++level) {
    const Bandwidth bandwidth = level->link.point_to_point;
    levels.push_back({level->count, bandwidth.is_unlimited()
                                        ? std::numeric_limits<double>::infinity()
                                        : static_cast<double>(bandwidth.bytes_per_second)});
  }
  int size = 1;
  for (std::size_t level = 0; level < levels.size(); ++level) {
    const int here = std::min(levels[level].machines, std::max(devices / size, 1));
    if (size * here < devices && here < levels[level].machines) {
      fail_usage("--devices ", devices, ": PipeDream's optimizer fills whole levels; choose a ",
                 "multiple of ", size);
    }
    levels[level].machines = here;
    size *= here;
  }
  while (levels.size() > 1 && levels.back().machines == 1) levels.pop_back();
  while (levels.size() > 1 && levels.front().machines == 1) levels.erase(levels.begin());
  return levels;
}

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

/// What it has no words for.
void refuse_unknown_wishes(const Problem& problem, std::string_view name) {
  const bool asks =
      problem.max_stages || !problem.fixed.empty() || problem.min_layers_per_stage > 1;
  if (!asks) return;
  fail_usage("--strategy ", name, ": PipeDream's optimizer cannot be told --fix, --max-stages or ",
             "--min-layers-per-stage; leave them out, or use --strategy exact");
}

/// One minibatch of theirs is a microbatch of ours: the largest that the problem allows.
std::vector<LayerCost> minibatch_costs(const Problem& problem, const Space& space) {
  std::int64_t largest = 1;
  for (const Setting& setting : space.settings()) largest = std::max(largest, setting.microbatch);
  return layer_costs(problem.profile, kind_of(space.cluster(), 0),
                     {.device = kind_of(space.cluster(), 0).name,
                      .microbatch = largest,
                      .sequence = problem.sequence,
                      .precision = problem.precision});
}

SearchResult no_pipeline(std::string_view name, const PipedreamRules& rules) {
  SearchResult result;
  result.strategy = std::string(name);
  result.infeasible =
      Infeasible{.reason = concat("PipeDream's optimizer finds no pipeline that uses every machine",
                                  rules.memory ? " and whose stashed copies fit in memory" : "",
                                  rules.straight ? ", one per stage" : ""),
                 .remedies = {}};
  return result;
}

SearchResult search_by(std::string_view name, const Problem& problem, PipedreamRules rules) {
  refuse_unknown_wishes(problem, name);
  const Space space(problem);
  const DeviceKind& kind = kind_of(space.cluster(), 0);
  rules.straight = problem.straight;
  if (!kind.memory_unlimited) rules.memory = static_cast<double>(kind.memory);
  const auto levels = levels_of(space.cluster(), space.devices());
  const auto costs = minibatch_costs(problem, space);
  const auto states =
      pipedream_states(problem.profile.model, costs, first_source(problem), most_states);
  if (!states) {
    fail_usage("--strategy ", name, ": the model can be cut in more than ", most_states,
               " ways, too many for PipeDream's optimizer; use --strategy exact");
  }
  const auto plan = pipedream_plan(*states, rules, levels, space.layers());
  if (!plan) return no_pipeline(name, rules);
  // One level is searched exactly. Several are nested, which leaves pipelines out (15 devices next
  // to 1 on four nodes of four): below all of them is only that the machines share the compute.
  const double shared = states->states.back().compute / space.devices();
  return foreign_result(problem, name, plan->stages,
                        {.name = "time per minibatch",
                         .value = plan->time,
                         .unit = "s",
                         .lower_bound = levels.size() == 1 ? plan->time : shared},
                        plan->compared);
}

}  // namespace

SearchResult search_pipedream_released(const Problem& problem, const SearchControl&) {
  return search_by("pipedream-released", problem, {});
}

SearchResult search_pipedream_released_no_activations(const Problem& problem,
                                                      const SearchControl&) {
  return search_by("pipedream-released-no-activations", problem, {.charges_activations = false});
}

SearchResult search_pipedream_released_fewer_machines(const Problem& problem,
                                                      const SearchControl&) {
  return search_by("pipedream-released-fewer-machines", problem, {.fewer_machines = true});
}

SearchResult search_pipedream_paper(const Problem& problem, const SearchControl&) {
  return search_by("pipedream-paper", problem, {.cost = PipedreamCost::paper});
}

}  // namespace stagecraft
