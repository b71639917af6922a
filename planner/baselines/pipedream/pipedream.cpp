// The rows of PipeDream's optimizer: its cost models, and a problem in its terms.

#include "planner/baselines/pipedream/pipedream.hpp"

#include <algorithm>
#include <limits>

#include "planner/baselines/baselines.hpp"
#include "planner/baselines/compatibility.hpp"
#include "planner/baselines/pipedream/pipedream_problem.hpp"
#include "profiles/error.hpp"

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

std::string no_pipeline(const PipedreamRules& rules) {
  return concat("PipeDream's optimizer finds no pipeline that uses every machine",
                rules.memory ? " and whose stashed copies fit in memory" : "",
                rules.straight ? ", one per stage" : "");
}

/// Steps of some nanoseconds that the search will take, or more.
double work(const PipedreamStates& states, const std::vector<PipedreamLevel>& levels) {
  const double count = states.size();
  double steps = 50 * count * count;
  for (std::size_t level = 0; level + 1 < levels.size(); ++level) {
    const double machines = levels[level].machines;
    steps += count * count * count / 6 * machines * machines / 2;
  }
  return steps;
}

SearchResult search_by(std::string_view name, const Problem& problem, PipedreamRules rules,
                       double most_work = std::numeric_limits<double>::infinity()) {
  const Space space(problem);
  const DeviceKind& kind = kind_of(space.cluster(), 0);
  rules.straight = problem.straight;
  if (!kind.memory_unlimited) rules.memory = static_cast<double>(usable_memory(kind));
  const auto levels = levels_of(space.cluster(), devices_of(problem));
  // One minibatch of theirs is a microbatch of ours: the largest that the problem allows.
  const PipedreamStates states = states_of(problem, space, largest_microbatch(space),
                                           {name, "PipeDream's optimizer", most_states});
  if (work(states, levels) > most_work) return no_plan(name, "too much work");
  const auto plan = pipedream_plan(states, rules, levels, space.layers());
  if (!plan) return no_plan(name, no_pipeline(rules));
  // One level is searched exactly. Several are nested, which leaves pipelines out (15 devices next
  // to 1 on four nodes of four): below all of them is only that the machines share the compute.
  const double shared = states.states.back().compute / devices_of(problem);
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

std::optional<Candidate> pipedream_choice(const Problem& problem) {
  constexpr double most_work = 1e8;
  const auto& degrees = problem.tensor_parallel;
  if (std::find(degrees.begin(), degrees.end(), 1) == degrees.end()) return {};
  Problem free = problem;
  free.tensor_parallel = {1};
  free.max_stages.reset();
  free.fixed.clear();
  free.min_layers_per_stage = 1;
  return choice_of([&] { return search_by("pipedream-released", free, {}, most_work); });
}

}  // namespace stagecraft
