#include "planner/baselines/dnn_partitioning/max_load_joined.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Tensors of more nodes are not looked at pair by pair: bounds may only be too low.
constexpr std::size_t most_sharing = 64;

class Grouping {
 public:
  Grouping(const MaxLoadProblem& problem, double limit)
      : problem_(problem), limit_(limit), groups_(problem.nodes.size()) {
    std::iota(groups_.begin(), groups_.end(), 0);
  }

  std::optional<std::vector<int>> run() {
    do {
      add_up();
      for (const int group : groups_) {
        if (!fits_accelerator(group, 0) && !fits_processor(group)) return {};
      }
    } while (join_once());
    return groups_;
  }

 private:
  struct Sums {
    double accelerator = 0, processor = 0, size = 0;
    bool accelerated = true;
  };

  void add_up() {
    sums_.assign(groups_.size(), {});
    for (std::size_t node = 0; node < groups_.size(); ++node) {
      Sums& sums = sums_[index(groups_[node])];
      const MaxLoadNode& it = problem_.nodes[node];
      sums.accelerator += it.accelerator;
      sums.processor += it.processor;
      sums.size += it.size;
      sums.accelerated = sums.accelerated && it.accelerated;
    }
  }

  bool fits_accelerator(int group, double cost) const {
    const Sums& sums = sums_[index(group)];
    return problem_.accelerators > 0 && sums.accelerated && sums.size <= problem_.memory &&
           sums.accelerator + cost < limit_;
  }

  bool fits_processor(int group) const {
    return problem_.processors > 0 && sums_[index(group)].processor < limit_;
  }

  bool may_be_apart(int one, int other, double cost) const {
    const bool one_pays = fits_accelerator(one, cost), other_pays = fits_accelerator(other, cost);
    return (problem_.accelerators > 1 && one_pays && other_pays) ||
           (one_pays && fits_processor(other)) || (other_pays && fits_processor(one)) ||
           (problem_.processors > 1 && fits_processor(one) && fits_processor(other));
  }

  /// What tensors that two groups share cost.
  std::map<std::pair<int, int>, double> shared_costs() const {
    std::map<std::pair<int, int>, double> costs;
    for (const MaxLoadTensor& tensor : problem_.tensors) {
      if (tensor.cost <= 0 || tensor.nodes.size() > most_sharing) continue;
      const std::vector<int> groups = groups_of(tensor);
      for (auto one = groups.begin(); one != groups.end(); ++one) {
        for (auto other = one + 1; other != groups.end(); ++other) {
          costs[{*one, *other}] += tensor.cost;
        }
      }
    }
    return costs;
  }

  std::vector<int> groups_of(const MaxLoadTensor& tensor) const {
    std::vector<int> groups;
    for (const int node : tensor.nodes) groups.push_back(groups_[index(node)]);
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    return groups;
  }

  /// Joins pairs of groups that cannot be apart, those of others that were just joined next time.
  bool join_once() {
    std::vector<int> now(groups_.size());
    std::iota(now.begin(), now.end(), 0);
    bool has_joined = false;
    for (const auto& [pair, cost] : shared_costs()) {
      if (may_be_apart(pair.first, pair.second, cost)) continue;
      const int one = now[index(pair.first)], other = now[index(pair.second)];
      if (one == other) continue;
      std::replace(now.begin(), now.end(), std::max(one, other), std::min(one, other));
      has_joined = true;
    }
    for (int& group : groups_) group = now[index(group)];
    return has_joined;
  }

  const MaxLoadProblem& problem_;
  double limit_;
  std::vector<int> groups_;
  std::vector<Sums> sums_;
};

}  // namespace

std::optional<std::vector<int>> groups_below(const MaxLoadProblem& problem, double limit) {
  return Grouping(problem, limit).run();
}

std::vector<int> groups_by_cost(const MaxLoadProblem& problem, double least_cost,
                                double most_time) {
  std::vector<const MaxLoadTensor*> tensors;
  for (const MaxLoadTensor& tensor : problem.tensors) {
    if (tensor.cost >= least_cost) tensors.push_back(&tensor);
  }
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto* one, const auto* other) { return one->cost > other->cost; });
  std::vector<int> groups(problem.nodes.size());
  std::iota(groups.begin(), groups.end(), 0);
  std::vector<double> time, size;
  for (const MaxLoadNode& node : problem.nodes) {
    time.push_back(node.accelerated ? node.accelerator : most_time);
    size.push_back(node.size);
  }
  for (const MaxLoadTensor* tensor : tensors) {
    for (const int node : tensor->nodes) {
      const int one = groups[index(tensor->nodes.front())], other = groups[index(node)];
      if (one == other || time[index(one)] + time[index(other)] > most_time ||
          size[index(one)] + size[index(other)] > problem.memory)
        continue;
      time[index(one)] += time[index(other)];
      size[index(one)] += size[index(other)];
      std::replace(groups.begin(), groups.end(), other, one);
    }
  }
  return groups;
}

MaxLoadProblem joined(const MaxLoadProblem& problem, const std::vector<int>& groups) {
  MaxLoadProblem small{.nodes = {},
                       .edges = {},
                       .tensors = {},
                       .accelerators = problem.accelerators,
                       .processors = problem.processors,
                       .memory = problem.memory};
  std::vector<int> number(groups.size(), -1);
  for (std::size_t node = 0; node < groups.size(); ++node) {
    int& group = number[index(groups[node])];
    if (group < 0) {
      group = static_cast<int>(small.nodes.size());
      small.nodes.emplace_back();
    }
    const MaxLoadNode& it = problem.nodes[node];
    MaxLoadNode& sum = small.nodes[index(group)];
    sum.accelerator += it.accelerator;
    sum.processor += it.processor;
    sum.size += it.size;
    sum.accelerated = sum.accelerated && it.accelerated;
    sum.members.push_back(static_cast<int>(node));
  }
  std::map<std::vector<int>, double> costs;
  for (const MaxLoadTensor& tensor : problem.tensors) {
    std::vector<int> nodes;
    for (const int node : tensor.nodes) nodes.push_back(number[index(groups[index(node)])]);
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    if (nodes.size() > 1 && tensor.cost > 0) costs[nodes] += tensor.cost;
  }
  for (const auto& [nodes, cost] : costs) small.tensors.push_back({cost, nodes});
  return small;
}

}  // namespace stagecraft
