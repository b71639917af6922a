// The input of Piper (Tarnawski et al., "Piper: Multidimensional Planner for DNN Parallelization",
// NeurIPS 2021; `algo.cpp` reads it) in its own figures, before anything is made of them.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/model.hpp"

namespace stagecraft {

/// One way to run a node on some number of tensor-parallel devices (a "TMPC"); figures of one
/// microbatch, which Piper calls a sample.
struct PiperChoice {
  std::string name;                  ///< "vanilla", "activation recomp"
  double time = 0;                   ///< forward and backward, seconds
  double parameters = 0;             ///< bytes, for the sums over replicas
  double memory_per_microbatch = 0;  ///< bytes for each microbatch in flight
  double memory_fixed = 0;           ///< bytes
  std::map<int, double> sync_in;     ///< bytes beside an edge's own, by the node it comes from
  std::map<int, double> sync_out;    ///< by the node it goes to
  bool operator==(const PiperChoice&) const = default;
};

struct PiperNode {
  std::int64_t id = 0;                              ///< in the file; distinct
  std::string name;                                 ///< distinct
  std::map<int, std::vector<PiperChoice>> choices;  ///< one or two, by tensor-parallel degree
  bool operator==(const PiperNode&) const = default;
};

struct PiperEdge {
  int from = 0;
  int to = 0;
  double bytes = 0;  ///< one way, one microbatch
  bool operator==(const PiperEdge&) const = default;
};

struct PiperGraph {
  double memory = 0;     ///< bytes per device
  double bandwidth = 0;  ///< bytes per second
  int devices = 0;
  int microbatches = 0;          ///< per batch
  std::vector<PiperNode> nodes;  ///< no cycle among them
  std::vector<PiperEdge> edges;  ///< indices into `nodes`, no two the same
  bool operator==(const PiperGraph&) const = default;
};

/// Throws Error (input) with the place of a member that is missing or wrong.
PiperGraph read_piper_graph(std::string_view content, const std::string& file);

/// The file's nodes in the order in which the imported profile has them as layers.
std::vector<int> piper_layer_order(const PiperGraph& graph, const std::string& file);

}  // namespace stagecraft
