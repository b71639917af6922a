#include "planner/strategies/dnn_partitioning/max_load_cuts.hpp"

#include <algorithm>

#include "planner/strategies/dnn_partitioning/cut_chains.hpp"
#include "planner/strategies/dnn_partitioning/cut_levels.hpp"

namespace stagecraft {

namespace {

constexpr int levels_of_work = 256;
/// What nodes need, and who needs them, takes a bit for each two of them.
constexpr std::size_t most_nodes = 8192;

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

void add_order(CutChains& chains, const std::vector<int>& order) {
  std::vector<bool> before(order.size(), false);
  for (const int node : order) {
    before[at(node)] = true;
    chains.add(before);
  }
}

}  // namespace

bool can_search_cuts(const MaxLoadProblem& problem) {
  return problem.processors == 0 && problem.nodes.size() <= most_nodes &&
         std::all_of(problem.nodes.begin(), problem.nodes.end(),
                     [](const MaxLoadNode& node) { return node.accelerated; });
}

CutSearch search_cuts(const MaxLoadProblem& problem, const std::vector<std::vector<int>>& orders,
                      double below, const std::stop_token& stop) {
  const CutLevels levels(problem, levels_of_work, stop);
  CutChains chains(problem);
  for (const std::vector<int>& order : orders) add_order(chains, order);
  for (const std::vector<bool>& cut : levels.cuts()) chains.add(cut);
  CutSearch result{.parts = chains.best(below, stop), .lower_bound = 0, .compared = 0};
  result.lower_bound = levels.lower_bound(problem.accelerators, below);
  result.compared = chains.compared();
  return result;
}

}  // namespace stagecraft
