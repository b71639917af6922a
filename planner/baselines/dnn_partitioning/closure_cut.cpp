#include "planner/baselines/dnn_partitioning/closure_cut.hpp"

#include <algorithm>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Room that is only rounding carries nothing.
constexpr double nothing = 1e-12;

}  // namespace

// A tensor is an arc between two vertices of its own; nodes before the cut hold on to its tail, and
// its head holds on to nodes behind:
//
//   node ---unlimited---> tail ---cost---> head ---unlimited---> node
//
// so whoever has some of its nodes on both sides pays for the arc.
ClosureCut::ClosureCut(const MaxLoadProblem& problem, const CutQuestion& question)
    : vertices_(problem.nodes.size()), first_(2, none) {
  for (std::size_t node = 0; node < vertices_.size(); ++node) {
    switch (question.sides[node]) {
      case CutSide::before: vertices_[node] = source_; break;
      case CutSide::behind: vertices_[node] = target_; break;
      case CutSide::open:
        vertices_[node] = add_vertex();
        if (question.price > 0)
          connect(vertices_[node], target_, question.price * problem.nodes[node].accelerator);
        if (question.price < 0)
          connect(source_, vertices_[node], -question.price * problem.nodes[node].accelerator);
    }
  }
  for (const Edge& edge : problem.edges)
    connect(vertices_[index(edge.to)], vertices_[index(edge.from)], unlimited);
  for (std::size_t t = 0; t < problem.tensors.size(); ++t) {
    if (!question.is_free[t]) add_tensor(problem.tensors[t]);
  }
}

void ClosureCut::add_tensor(const MaxLoadTensor& tensor) {
  if (tensor.cost <= 0) return;
  std::vector<int> vertices;
  for (const int node : tensor.nodes) vertices.push_back(vertices_[index(node)]);
  std::sort(vertices.begin(), vertices.end());
  vertices.erase(std::unique(vertices.begin(), vertices.end()), vertices.end());
  if (vertices.size() < 2) return;
  const int tail = add_vertex();
  const int head = add_vertex();
  connect(tail, head, tensor.cost);
  for (const int vertex : vertices) {
    connect(vertex, tail, unlimited);
    connect(head, vertex, unlimited);
  }
}

int ClosureCut::add_vertex() {
  first_.push_back(none);
  return static_cast<int>(first_.size()) - 1;
}

void ClosureCut::connect(int from, int to, double capacity) {
  if (from == to || from == target_ || to == source_) return;
  const int arc = static_cast<int>(arcs_.size());
  arcs_.push_back({.to = to, .next = first_[index(from)], .room = capacity});
  arcs_.push_back({.to = from, .next = first_[index(to)], .room = 0});
  first_[index(from)] = arc;
  first_[index(to)] = arc + 1;
  steps_ += 2;
}

void ClosureCut::put_before(int node) {
  connect(source_, vertices_[index(node)], unlimited);
}

void ClosureCut::put_behind(int node) {
  connect(vertices_[index(node)], target_, unlimited);
}

/// Distances from the source, breadth first, as far as the target's.
bool ClosureCut::reach_target() {
  distance_.assign(first_.size(), -1);
  distance_[index(source_)] = 0;
  std::vector<int> queue{source_};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const int vertex = queue[next];
    for (int number = first_[index(vertex)]; number != none; number = arcs_[index(number)].next) {
      const Arc& arc = arcs_[index(number)];
      ++steps_;
      if (arc.room <= nothing || distance_[index(arc.to)] >= 0) continue;
      distance_[index(arc.to)] = distance_[index(vertex)] + 1;
      if (arc.to == target_) return true;
      queue.push_back(arc.to);
    }
  }
  return false;
}

/// Sends up to `most` from the vertex to the target along shortest ways; what arrived.
double ClosureCut::push(int vertex, double most) {
  if (vertex == target_) return most;
  for (int& number = unused_[index(vertex)]; number != none; number = arcs_[index(number)].next) {
    Arc& arc = arcs_[index(number)];
    ++steps_;
    if (arc.room <= nothing || distance_[index(arc.to)] != distance_[index(vertex)] + 1) continue;
    const double sent = push(arc.to, std::min(most, arc.room));
    if (sent <= 0) continue;
    arc.room -= sent;
    arcs_[index(number ^ 1)].room += sent;
    return sent;
  }
  return 0;
}

double ClosureCut::raise(double enough) {
  while (flow_ < enough && reach_target()) {
    unused_ = first_;
    while (flow_ < enough) {
      const double sent = push(source_, unlimited);
      if (sent <= 0) break;
      flow_ += sent;
    }
  }
  return flow_;
}

std::vector<bool> ClosureCut::before() const {
  std::vector<bool> result(vertices_.size());
  for (std::size_t node = 0; node < result.size(); ++node)
    result[node] = distance_[index(vertices_[node])] >= 0;
  return result;
}

}  // namespace stagecraft
