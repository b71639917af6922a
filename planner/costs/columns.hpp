// Columns: identical data-parallel replicas of a whole pipeline within one plan, which work in
// lockstep.
//
// If every stage's replicas share each microbatch, the plan has c equal columns if c divides the
// microbatch and the replicas of every stage, and if every column has the same kinds of devices and
// links as column 0:
//
//   replicas of stage 0   0 1 | 2 3 | 4 5 | 6 7
//   replicas of stage 1    0  |  1  |  2  |  3        c = 4: each column has 2 and then 1
//
// Columns only interact in collectives, which start when the last member is ready, and all members
// are ready at the same time. So the simulation of one column gives the step and the peaks of all,
// for any size of the cluster.

#pragma once

#include <vector>

#include "planner/costs/cost_book.hpp"
#include "planner/plan/plan.hpp"

namespace stagecraft {

/// Number of equal columns of the plan; 1 if it has none. The plan must be valid.
int columns_of(const Plan& plan, CostBook& book);

/// For each lead device of the plan, ascending, the place in `first` of the corresponding device of
/// column 0; `first` are the lead devices of column 0, ascending.
std::vector<int> stand_ins(const Plan& plan, int columns, const std::vector<int>& first);

/// Whether blocks of `devices` consecutive devices, from device 0 on, have equal links: the link
/// from place x of one block to place x of another is the same for every x. Devices at the end that
/// do not fill a block are ignored.
bool has_alike_blocks(const Cluster& cluster, int devices);

}  // namespace stagecraft
