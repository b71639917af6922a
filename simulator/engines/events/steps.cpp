// Lock step: computes of depth k are step k, and the messages that come from them, of depth k + 1,
// end it.
//
//   device 0   F0 SF0 │ F1 SF1 │        │ B0 …
//   device 1          │ F0     │ B0 SB0 │ F1 …
//   step          0   │   1    │   2    │ 3

#include <algorithm>

#include "simulator/engines/events/precedence.hpp"

namespace stagecraft::events {

namespace {

/// Of each node, the most computes that lie before it; nobody on a cycle.
std::vector<int> depths(const Precedence& graph) {
  std::vector<std::vector<int>> followers(index(graph.nodes));
  std::vector<int> unmet(index(graph.nodes), 0), depth(index(graph.nodes), 0), order;
  for (const Arc& arc : graph.arcs) {
    if (arc.later > 0) continue;
    followers[index(arc.from)].push_back(arc.to);
    ++unmet[index(arc.to)];
  }
  for (int node = 0; node < graph.nodes; ++node) {
    if (unmet[index(node)] == 0) order.push_back(node);
  }
  for (std::size_t next = 0; next < order.size(); ++next) {
    const int node = order[next];
    const int below = depth[index(node)] + (graph.work(node).lane == Lane::compute ? 1 : 0);
    for (const int follower : followers[index(node)]) {
      depth[index(follower)] = std::max(depth[index(follower)], below);
      if (--unmet[index(follower)] == 0) order.push_back(follower);
    }
  }
  for (int node = 0; node < graph.nodes; ++node) {
    if (unmet[index(node)] > 0) depth[index(node)] = nobody;
  }
  return depth;
}

}  // namespace

void step_together(Precedence& precedence) {
  const std::vector<int> depth = depths(precedence);
  const int works = precedence.nodes;
  std::vector<int> begin;  // points: each step may begin
  for (int k = 0; k <= *std::max_element(depth.begin(), depth.end()) + 1; ++k) {
    begin.push_back(precedence.add_point());
    if (k > 0) precedence.add({.from = begin[index(k - 1)], .to = begin.back(), .why = Why::step});
  }
  precedence.add({.from = begin.back(), .to = begin.front(), .why = Why::step, .later = 1});
  for (int i = 0; i < works; ++i) {
    if (depth[index(i)] == nobody || precedence.leader[index(i)] != i) continue;
    const bool compute = precedence.work(i).lane == Lane::compute;
    const int step = depth[index(i)];
    if (compute) precedence.add({.from = begin[index(step)], .to = i, .why = Why::step});
    precedence.add({.from = i, .to = begin[index(compute ? step + 1 : step)], .why = Why::step});
  }
}

}  // namespace stagecraft::events
