// Degrees of sequence, context and expert parallelism that `plan` is to try: as given, or what may
// help where nobody says.

#pragma once

#include "planner/problem/problem.hpp"
#include "tools/options/planning_problem.hpp"

namespace stagecraft {

/// Whether degrees and sharding are chosen by themselves: where costs of a transformer are
/// estimated. What was measured was measured without, and CPUs run layers without.
bool may_share_layers(const Problem& problem);

/// Of the problem, which has its model, cluster, sequence and tensor-parallel degrees. What was not
/// said is chosen: sequence parallelism where costs are estimated (tensor-parallel peers take no
/// longer with it, and keep less), context and expert degrees there, too. Throws Error (usage) for
/// degrees that do not divide what they are to divide.
void set_parallelism(Problem& problem, const PlanningOptions& options);

}  // namespace stagecraft
