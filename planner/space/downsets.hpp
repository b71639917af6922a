// The downsets of a directed acyclic graph: sets that hold, with each node, all it reads from. What
// a pipeline has computed at a cut is one of them, so partitions into contiguous stages are chains
// of downsets (Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph
// Operators", NeurIPS 2020, where they are called ideals).
//
// A chain of n nodes has n + 1, n independent nodes have 2^n: enumerations take a limit.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "profiles/model.hpp"

namespace stagecraft {

/// Nodes 0 … nodes - 1, without a cycle; an edge's `to` reads from its `from`.
struct Dag {
  int nodes = 0;
  std::vector<Edge> edges;
};

/// Adding `node` to a downset gives the downset `to`.
struct LatticeStep {
  int node = 0;
  int to = 0;
  bool operator==(const LatticeStep&) const = default;
};

/// Downsets in order of size: the empty one first, the one with all nodes last.
struct Lattice {
  int nodes = 0;
  std::size_t words = 1;                ///< 64-bit words per set
  std::vector<std::uint64_t> bits;      ///< set after set
  std::vector<std::size_t> first_step;  ///< set i has the steps [first_step[i], first_step[i + 1])
  std::vector<LatticeStep> steps;

  int size() const { return static_cast<int>(first_step.size()) - 1; }
  std::span<const std::uint64_t> set(int i) const {
    return std::span(bits).subspan(static_cast<std::size_t>(i) * words, words);
  }
  bool contains(int i, int node) const {
    return (set(i)[static_cast<std::size_t>(node) / 64] >> (node % 64) & 1U) != 0;
  }
  std::span<const LatticeStep> steps_from(int i) const {
    const std::size_t first = first_step[static_cast<std::size_t>(i)];
    return std::span(steps).subspan(first, first_step[static_cast<std::size_t>(i) + 1] - first);
  }
  /// The nodes of set `to` that are not in set `from`, ascending.
  std::vector<int> difference(int from, int to) const;
};

/// All downsets and the steps between them; nothing if there are more than `most` or the graph has
/// more than `most_lattice_nodes`.
std::optional<Lattice> downset_lattice(const Dag& dag, std::int64_t most);
inline constexpr int most_lattice_nodes = 2048;

/// How many there are, in the memory of the two largest neighbouring sizes; nothing as above.
std::optional<std::int64_t> count_downsets(const Dag& dag, std::int64_t most);

/// Only the downsets that an order of the nodes passes through: nodes + 1 of them.
Lattice linear_lattice(const Dag& dag, const std::vector<int>& order);

/// A topological order that follows a branch to its end before it starts the next.
std::vector<int> depth_first_order(const Dag& dag);

/// A topological order that keeps to the numbers of the nodes as far as it can.
std::vector<int> order_by_number(const Dag& dag);

}  // namespace stagecraft
