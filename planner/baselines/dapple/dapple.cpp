// The row of DAPPLE's planner: a problem in its terms.

#include "planner/baselines/dapple/dapple.hpp"

#include <algorithm>
#include <iomanip>

#include "planner/baselines/baselines.hpp"
#include "planner/baselines/pipedream/pipedream_problem.hpp"
#include "planner/space/space.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// Its program runs for more than a quarter of an hour with 1500 states.
constexpr int most_states = 600;

/// A single level is one server if its links are more like NVLink than like Ethernet.
constexpr std::int64_t least_inside_a_server = 10'000'000'000;

/// The innermost of several levels is its server; what is outside of that, its Ethernet.
DappleServers servers_of(const Cluster& cluster, int devices) {
  const Level& innermost = cluster.levels.back();
  const bool fast = innermost.link.point_to_point.bytes_per_second >= least_inside_a_server;
  const bool inside = cluster.levels.size() > 1 || fast;
  const int each = inside ? std::min(innermost.count, devices) : 1;
  if (devices % each != 0) {
    fail_usage("--devices ", devices, ": DAPPLE's planner fills whole servers; choose a multiple ",
               "of ", each);
  }
  return {devices / each, each};
}

/// The layers that each state adds to those before it; stages without any are left out.
std::vector<ForeignStage> stages_of(const PipedreamStates& states,
                                    const std::vector<DappleStage>& plan,
                                    const DappleServers& cluster, int layers) {
  std::vector<ForeignStage> stages;
  std::vector<bool> placed(static_cast<std::size_t>(layers));
  for (const DappleStage& from : plan) {
    ForeignStage stage{.layers = {},
                       .replicas = from.devices.count(),
                       .recompute = Recompute::none,
                       .devices = {}};
    stage.layers = new_layers(states.states[static_cast<std::size_t>(from.end - 1)], placed);
    for (int server = 0; server < cluster.servers; ++server) {
      const auto s = static_cast<std::size_t>(server);
      for (int i = 0; i < from.devices.taken[s]; ++i) {
        stage.devices.push_back(server * cluster.devices_each + from.devices.before[s] + i);
      }
    }
    if (!stage.layers.empty()) stages.push_back(std::move(stage));
  }
  return stages;
}

}  // namespace

SearchResult search_dapple(const Problem& problem, const SearchControl&) {
  const std::string name = "dapple";
  const Space space(problem);
  const DappleServers cluster = servers_of(space.cluster(), devices_of(problem));
  const std::int64_t microbatch = smallest_microbatch(space);
  const PipedreamStates states =
      states_of(problem, space, microbatch, {name, "DAPPLE's planner", most_states});
  const DappleBatch batch{
      .scale = static_cast<double>(problem.global_batch) / static_cast<double>(microbatch),
      .microbatches = static_cast<int>(problem.global_batch / microbatch)};
  const auto plan = dapple_plan(states, cluster, batch, problem.straight);
  if (!plan) return no_plan(name, "DAPPLE's planner finds no plan for these devices");
  const double shared = batch.scale * states.states.back().compute / devices_of(problem);
  SearchResult result = foreign_result(
      problem, name, stages_of(states, plan->stages, cluster, space.layers()),
      {.name = "latency", .value = plan->latency, .unit = "s", .lower_bound = shared},
      plan->compared);
  add_note(result,
           concat("DAPPLE's formulas promise a speed-up of ", std::fixed, std::setprecision(2),
                  plan->speedup, " over one device, with its own bandwidths: 25 GB/s inside a ",
                  "server, 1 GB/s and, for sums, 3 GB/s between servers"));
  return result;
}

}  // namespace stagecraft
