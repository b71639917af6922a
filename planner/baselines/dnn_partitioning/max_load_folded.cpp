#include <algorithm>
#include <map>
#include <set>

#include "planner/baselines/dnn_partitioning/max_load.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// A problem whose nodes join others one by one.
class Folding {
 public:
  explicit Folding(const MaxLoadProblem& problem)
      : problem_(problem),
        gone_(problem.nodes.size(), false),
        neighbours_(problem.nodes.size()),
        tensors_of_(problem.nodes.size()) {
    for (const MaxLoadNode& node : problem.nodes) total_size_ += node.size;
    for (const Edge& edge : problem.edges) {
      neighbours_[index(edge.from)].insert(edge.to);
      neighbours_[index(edge.to)].insert(edge.from);
    }
    for (const MaxLoadTensor& tensor : problem.tensors) {
      if (tensor.cost <= 0) continue;
      for (const int node : tensor.nodes) tensors_of_[index(node)].insert(tensors_.size());
      tensors_.emplace_back(tensor.nodes.begin(), tensor.nodes.end());
      costs_.push_back(tensor.cost);
    }
  }

  MaxLoadProblem run() {
    std::set<int> candidates;
    for (std::size_t node = 0; node < gone_.size(); ++node) {
      if (is_free(problem_.nodes[node])) candidates.insert(static_cast<int>(node));
    }
    while (!candidates.empty()) {
      const int node = *candidates.begin();
      candidates.erase(candidates.begin());
      if (neighbours_[index(node)].size() != 1) continue;
      const int host = *neighbours_[index(node)].begin();
      if (!shares_all_tensors(node, host)) continue;
      join(node, host);
      if (is_free(problem_.nodes[index(host)])) candidates.insert(host);
      for (const int next : neighbours_[index(host)]) {
        if (is_free(problem_.nodes[index(next)])) candidates.insert(next);
      }
    }
    return result();
  }

 private:
  /// Sizes do not matter where one device holds all of them.
  bool is_free(const MaxLoadNode& node) const {
    return node.accelerator <= 0 && node.processor <= 0 && node.accelerated &&
           (node.size <= 0 || total_size_ <= problem_.memory);
  }

  bool shares_all_tensors(int node, int host) const {
    return std::all_of(tensors_of_[index(node)].begin(), tensors_of_[index(node)].end(),
                       [&](std::size_t tensor) {
                         return tensors_[tensor].size() == 1 || tensors_[tensor].contains(host);
                       });
  }

  void join(int node, int host) {
    gone_[index(node)] = true;
    neighbours_[index(host)].erase(node);
    for (const std::size_t tensor : tensors_of_[index(node)]) {
      tensors_[tensor].erase(node);
      tensors_[tensor].insert(host);
      tensors_of_[index(host)].insert(tensor);
    }
    problem_.nodes[index(host)].size += problem_.nodes[index(node)].size;
    std::vector<int>& members = problem_.nodes[index(host)].members;
    const std::vector<int>& joining = problem_.nodes[index(node)].members;
    members.insert(members.end(), joining.begin(), joining.end());
  }

  /// The nodes that are left, in the order they had.
  MaxLoadProblem result() const {
    MaxLoadProblem small{.nodes = {},
                         .edges = {},
                         .tensors = {},
                         .accelerators = problem_.accelerators,
                         .processors = problem_.processors,
                         .memory = problem_.memory};
    std::vector<int> number(gone_.size(), -1);
    for (std::size_t node = 0; node < gone_.size(); ++node) {
      if (gone_[node]) continue;
      number[node] = static_cast<int>(small.nodes.size());
      small.nodes.push_back(problem_.nodes[node]);
    }
    for (const Edge& edge : problem_.edges) {
      const int from = number[index(edge.from)];
      const int to = number[index(edge.to)];
      if (from >= 0 && to >= 0) small.edges.push_back({from, to});
    }
    // Tensors between the same nodes cross together.
    std::map<std::vector<int>, double> costs;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      std::vector<int> nodes;
      for (const int node : tensors_[t]) nodes.push_back(number[index(node)]);
      if (nodes.size() > 1) costs[nodes] += costs_[t];
    }
    for (const auto& [nodes, cost] : costs) small.tensors.push_back({cost, nodes});
    return small;
  }

  MaxLoadProblem problem_;
  double total_size_ = 0;
  std::vector<bool> gone_;
  std::vector<std::set<int>> neighbours_;
  std::vector<std::set<int>> tensors_;
  std::vector<double> costs_;
  std::vector<std::set<std::size_t>> tensors_of_;
};

}  // namespace

MaxLoadProblem folded(const MaxLoadProblem& problem) {
  return Folding(problem).run();
}

}  // namespace stagecraft
