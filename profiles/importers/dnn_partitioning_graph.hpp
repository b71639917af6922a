// The input of dnn-partitioning (Tarnawski et al., "Efficient Algorithms for Device Placement of
// DNN Graph Operators", NeurIPS 2020; `throughput-dp/dp.cpp` reads it) in its own figures, before
// anything is made of them.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/model.hpp"

namespace stagecraft {

struct DnnNode {
  std::string name;         ///< distinct
  double processor = 0;     ///< time on a CPU, milliseconds
  double accelerator = 0;   ///< time on an accelerator, milliseconds
  double size = 0;          ///< bytes it needs on an accelerator
  bool accelerated = true;  ///< can run on an accelerator
  bool backward = false;
  /// What an accelerator pays, in the milliseconds that the tool adds, when its output crosses
  /// to or from other devices.
  double cost = 0;
  std::optional<std::int64_t> color;  ///< nodes of one colour stay together
  bool operator==(const DnnNode&) const = default;
};

struct DnnEdge {
  int from = 0;
  int to = 0;
  double bytes = 0;
  bool operator==(const DnnEdge&) const = default;
};

struct DnnGraph {
  double memory = 0;  ///< bytes per accelerator
  int accelerators = 0;
  int processors = 0;
  std::vector<DnnNode> nodes;  ///< no cycle among them
  std::vector<DnnEdge> edges;  ///< indices into `nodes`
  bool operator==(const DnnGraph&) const = default;
};

/// Throws Error (input) with the place of a member that is missing or wrong.
DnnGraph read_dnn_partitioning_graph(std::string_view content, const std::string& file);

/// Nodes that no split may part: those of a colour, and colours whose forward nodes read from each
/// other in a circle.
struct DnnLayers {
  std::vector<std::vector<int>> nodes;  ///< per layer, ascending
  /// Between layers by their forward nodes; a backward node without forward partners hangs where
  /// the mirror image of its edges would hang it, or by what it reads if nothing else holds it.
  /// Each pair once, no cycle.
  std::vector<Edge> edges;
};

/// In the order in which the imported profile has them.
DnnLayers dnn_layers(const DnnGraph& graph, const std::string& file);

}  // namespace stagecraft
