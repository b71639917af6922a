#include "planner/orders.hpp"

#include <algorithm>
#include <numeric>

#include "planner/downsets.hpp"

namespace stagecraft {

namespace {

/// The plans' orders, the fastest plan's first.
std::vector<std::vector<int>> orders_of(const std::vector<Candidate>& plans) {
  std::vector<const Candidate*> ranked;
  for (const Candidate& plan : plans) {
    if (plan.prediction && plan.prediction->fits && !plan.plan.order.empty()) {
      ranked.push_back(&plan);
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Candidate* a, const Candidate* b) {
    return pace(*a->prediction) < pace(*b->prediction);
  });
  std::vector<std::vector<int>> orders;
  for (const Candidate* plan : ranked) orders.push_back(plan->plan.order);
  return orders;
}

}  // namespace

Problem in_order(Problem problem, const std::vector<int>& order) {
  problem.profile = reordered(std::move(problem.profile), order);
  problem.order = order;
  return problem;
}

std::vector<std::vector<int>> other_orders(const Problem& problem,
                                           const std::vector<Candidate>& plans, std::size_t most) {
  if (!problem.fixed.empty()) return {};
  const Model& model = problem.profile.model;
  Dag dag{.nodes = static_cast<int>(model.layers.size()), .edges = model.edges};
  std::vector<std::vector<int>> known{std::vector<int>(model.layers.size())};
  std::iota(known.front().begin(), known.front().end(), 0);
  std::vector<std::vector<int>> wanted = orders_of(plans);
  wanted.push_back(depth_first_order(dag));
  std::reverse(dag.edges.begin(), dag.edges.end());
  wanted.push_back(depth_first_order(dag));
  for (std::vector<int>& order : wanted) {
    if (known.size() > most) break;
    if (std::find(known.begin(), known.end(), order) == known.end()) {
      known.push_back(std::move(order));
    }
  }
  known.erase(known.begin());
  return known;
}

}  // namespace stagecraft
