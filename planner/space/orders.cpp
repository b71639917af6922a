#include "planner/space/orders.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "planner/space/downsets.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// The orders of the plans, fastest plan first.
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

/// Enumerates topological orders in lexicographical order, up to a maximum number.
class OrderEnumeration {
 public:
  OrderEnumeration(const Model& model, std::size_t most)
      : next_(model.layers.size()), inputs_(model.layers.size()), most_(most) {
    for (const auto& [from, to] : model.edges) {
      next_[index(from)].push_back(to);
      ++inputs_[index(to)];
    }
    for (std::size_t layer = 0; layer < inputs_.size(); ++layer) {
      if (inputs_[layer] == 0) ready_.insert(static_cast<int>(layer));
    }
  }

  std::vector<std::vector<int>> run() {
    extend();
    return std::move(orders_);
  }

 private:
  void extend() {
    if (order_.size() == inputs_.size()) orders_.push_back(order_);
    const std::vector<int> candidates(ready_.begin(), ready_.end());
    for (const int layer : candidates) {
      if (orders_.size() == most_) return;
      take(layer);
      extend();
      give_back(layer);
    }
  }

  void take(int layer) {
    ready_.erase(layer);
    order_.push_back(layer);
    for (const int to : next_[index(layer)]) {
      if (--inputs_[index(to)] == 0) ready_.insert(to);
    }
  }

  void give_back(int layer) {
    for (const int to : next_[index(layer)]) {
      if (inputs_[index(to)]++ == 0) ready_.erase(to);
    }
    order_.pop_back();
    ready_.insert(layer);
  }

  std::vector<std::vector<int>> next_;
  std::vector<int> inputs_;  ///< per layer: number of its inputs that are not yet in the order
  std::set<int> ready_;
  std::size_t most_ = 0;
  std::vector<int> order_;
  std::vector<std::vector<int>> orders_;
};

}  // namespace

bool has_more_orders(const Model& model, std::size_t than) {
  return OrderEnumeration(model, than + 1).run().size() > than;
}

Problem in_order(Problem problem, const std::vector<int>& order) {
  problem.profile = reordered(std::move(problem.profile), order);
  problem.order = order;
  return problem;
}

std::vector<std::vector<int>> other_orders(const Problem& problem,
                                           const std::vector<Candidate>& plans, std::size_t most) {
  if (!problem.fixed.empty() || numbers_ranks(problem)) return {};
  const Model& model = problem.profile.model;
  Dag dag{.nodes = static_cast<int>(model.layers.size()), .edges = model.edges};
  std::vector<std::vector<int>> known{std::vector<int>(model.layers.size())};
  std::iota(known.front().begin(), known.front().end(), 0);
  std::vector<std::vector<int>> wanted = OrderEnumeration(model, most + 2).run();
  const bool are_all = wanted.size() <= most + 1;
  if (!are_all) wanted = orders_of(plans);
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
