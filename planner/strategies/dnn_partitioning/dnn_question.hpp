// An input of dnn-partitioning as the problem it asks.

#pragma once

#include "planner/strategies/dnn_partitioning/max_load.hpp"
#include "profiles/importers/dnn_partitioning_graph.hpp"

namespace stagecraft {

/// A node per layer, in milliseconds and bytes; devices and memory are left to the caller.
MaxLoadProblem question_of(const DnnGraph& graph, const DnnLayers& layers);

}  // namespace stagecraft
