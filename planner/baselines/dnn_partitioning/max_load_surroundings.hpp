// The load of a node on its accelerator, with the nodes that must stay with it.

#pragma once

#include "planner/baselines/dnn_partitioning/max_load.hpp"

namespace stagecraft {

/// No accelerator that has this node is loaded less, whatever else it has: time and cut tensors of
/// a set of nodes add up to a cut of a network, and the least one is found by a flow (tensors as
/// in Lawler, "Cutsets and Partitions of Hypergraphs", Networks 3, 1973). Rounding may only make it
/// less.
double least_load_with(const MaxLoadProblem& problem, int node);

}  // namespace stagecraft
