// Degrees of sequence, context and expert parallelism that `plan` tries: those given, or defaults.

#pragma once

#include "planner/problem/problem.hpp"
#include "tools/options/planning_problem.hpp"

namespace stagecraft {

/// Whether degrees and sharding are chosen by default: if costs of a transformer are estimated.
/// Measurements are without such degrees, and CPUs run layers without them.
bool may_share_layers(const Problem& problem);

/// Sets the degrees of a problem that has its model, cluster, sequence and tensor-parallel degrees.
/// If costs are estimated, degrees that were not given are chosen: sequence parallelism (which
/// takes no longer and saves memory), context and expert degrees. Throws Error (usage) for degrees
/// that do not divide evenly.
void set_parallelism(Problem& problem, const PlanningOptions& options);

}  // namespace stagecraft
