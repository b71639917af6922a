// Piper's problem: split a graph of nodes into contiguous stages, give each a data-parallel and a
// tensor-parallel degree, and choose for each node how to run it, so that the slowest stage's time
// per microbatch (TPS) is least (Tarnawski et al., "Piper: Multidimensional Planner for DNN
// Parallelization", NeurIPS 2021).
//
// A stage of nodes V with degrees d and t, and one choice per node, takes
//
//   [ sum over V's edges to and from other stages of 2 (bytes + sync) / d
//     + sum over V of 4 (d - 1) / d parameters / N ] / bandwidth + sum over V of time / d
//
// and needs sum (memory_per_microbatch y + memory_fixed) bytes, with y = ceil(s / d) microbatches
// in flight, s the sum of d over this stage and those behind it. d divides N, the microbatches per
// batch; s is at most N, and the sum of t d at most the number of devices.

#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "profiles/importers/piper_graph.hpp"

namespace stagecraft {

/// Longer than any time, and still a number when it is multiplied.
inline constexpr double piper_unbounded = 1e300;

struct PiperStage {
  std::vector<int> nodes;    ///< ascending
  std::vector<int> choices;  ///< per node, an index into its choices of the degree
  int data_parallel = 1;
  int tensor_parallel = 1;
  int in_flight = 1;  ///< y
  double time = 0;    ///< seconds per microbatch
  double memory = 0;  ///< bytes
};

struct PiperSplit {
  std::vector<PiperStage> stages;  ///< each reads from itself and those before it
  double time = 0;                 ///< of the slowest stage
  double lower_bound = 0;          ///< equal to `time`, up to rounding, if proved the least
  std::int64_t downsets = 0;
  std::int64_t parts = 0;  ///< sets of nodes that could be a stage
  int probes = 0;
};

/// Fills in what follows from the nodes, degrees, choices and y.
void measure(const PiperGraph& graph, PiperStage& stage);

/// The best split, or none if nothing fits into the devices' memory. Graphs with more than
/// `most_downsets` are split along one order of their nodes, with the bound of the work alone.
std::optional<PiperSplit> split_by_piper(const PiperGraph& graph, std::int64_t most_downsets,
                                         const std::stop_token& stop);

}  // namespace stagecraft
