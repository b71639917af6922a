// An input of dnn-partitioning, or any profile, as the problem that dnn-partitioning asks.
//
// On a profile, a layer's time is its forward and backward, its tensor costs a message of its
// output (and one back where it trains) on the slowest link, and its size is what one microbatch
// keeps. There are no CPUs then.

#pragma once

#include <string>

#include "planner/baselines/dnn_partitioning/max_load.hpp"
#include "planner/problem/problem.hpp"
#include "profiles/importers/dnn_partitioning_graph.hpp"

namespace stagecraft {

/// Lattices of more downsets take minutes.
inline constexpr std::int64_t most_downsets_of_max_load = 1'000'000;

/// A node per layer, in milliseconds and bytes; devices and memory are left to the caller.
MaxLoadProblem question_of(const DnnGraph& graph, const DnnLayers& layers);

/// The question with the problem's devices: from the file that it names, with that file's figures,
/// or from its profile.
MaxLoadProblem max_load_problem(const Problem& problem);

/// The reason why no split is possible, for devices of any memory; empty if there is none.
std::string runs_nowhere(const Problem& problem, const MaxLoadProblem& question);

}  // namespace stagecraft
