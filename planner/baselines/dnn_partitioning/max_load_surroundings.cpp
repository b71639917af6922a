#include "planner/baselines/dnn_partitioning/max_load_surroundings.hpp"

#include <algorithm>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// The largest flow, by shortest paths (Dinic, 1970).
class Network {
 public:
  static constexpr double unlimited = 1e300;

  explicit Network(std::size_t places) : arcs_of_(places), level_(places), next_(places) {}

  void add(int from, int to, double capacity) {
    arcs_of_[index(from)].push_back(static_cast<int>(arcs_.size()));
    arcs_.push_back({to, capacity});
    arcs_of_[index(to)].push_back(static_cast<int>(arcs_.size()));
    arcs_.push_back({from, 0});
  }

  /// Arcs with less left than `least` count as full, so the flow is never too large.
  double flow(int from, int to, double least) {
    least_ = least;
    double sum = 0;
    while (reaches(from, to)) {
      std::fill(next_.begin(), next_.end(), 0);
      for (double more = push(from, to, unlimited); more > 0; more = push(from, to, unlimited)) {
        sum += more;
      }
    }
    return sum;
  }

 private:
  struct Arc {
    int to;
    double left;
  };

  bool reaches(int from, int to) {
    std::fill(level_.begin(), level_.end(), -1);
    level_[index(from)] = 0;
    std::vector<int> queue{from};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (const int number : arcs_of_[index(queue[i])]) {
        const Arc& arc = arcs_[index(number)];
        if (arc.left <= least_ || level_[index(arc.to)] >= 0) continue;
        level_[index(arc.to)] = level_[index(queue[i])] + 1;
        queue.push_back(arc.to);
      }
    }
    return level_[index(to)] >= 0;
  }

  double push(int place, int to, double most) {
    if (place == to) return most;
    std::size_t& next = next_[index(place)];
    for (; next < arcs_of_[index(place)].size(); ++next) {
      const int number = arcs_of_[index(place)][next];
      Arc& arc = arcs_[index(number)];
      if (arc.left <= least_ || level_[index(arc.to)] != level_[index(place)] + 1) continue;
      const double pushed = push(arc.to, to, std::min(most, arc.left));
      if (pushed <= 0) continue;
      arc.left -= pushed;
      arcs_[index(number ^ 1)].left += pushed;
      return pushed;
    }
    return 0;
  }

  std::vector<Arc> arcs_;  ///< each followed by its reverse
  std::vector<std::vector<int>> arcs_of_;
  std::vector<int> level_;
  std::vector<std::size_t> next_;
  double least_ = 0;
};

}  // namespace

double least_load_with(const MaxLoadProblem& problem, int node) {
  const int nodes = static_cast<int>(problem.nodes.size());
  const int end = nodes;
  Network network(problem.nodes.size() + 1 + 2 * problem.tensors.size());
  double all = 0;
  for (int other = 0; other < nodes; ++other) {
    const double time = problem.nodes[index(other)].accelerator;
    network.add(other, end, time);
    all += time;
  }
  int place = nodes + 1;  // where a tensor is entered; it is left by the next one
  for (const MaxLoadTensor& tensor : problem.tensors) {
    network.add(place, place + 1, tensor.cost);
    for (const int other : tensor.nodes) {
      network.add(other, place, Network::unlimited);
      network.add(place + 1, other, Network::unlimited);
    }
    place += 2;
  }
  constexpr double rounding = 1e-15;
  return network.flow(node, end, rounding * all);
}

}  // namespace stagecraft
