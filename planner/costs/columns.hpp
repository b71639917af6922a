// Columns: data-parallel copies of a whole pipeline inside one plan, which do the same at the same
// time.
//
// Where every stage's replicas share each microbatch, c columns are alike if c divides the
// microbatch and the replicas of every stage, and if what column 0 has, devices and links, every
// other column has too:
//
//   replicas of stage 0   0 1 | 2 3 | 4 5 | 6 7
//   replicas of stage 1    0  |  1  |  2  |  3        c = 4: each column has 2 and then 1
//
// Columns meet in collectives only, which start when the last member is ready, and all are ready at
// once. So one column tells the step and the peaks of all, whatever the size of the cluster.

#pragma once

#include <vector>

#include "planner/costs/cost_book.hpp"
#include "planner/plan/plan.hpp"

namespace stagecraft {

/// As many alike columns as the plan has; 1 if it has none. The plan is valid.
int columns_of(const Plan& plan, CostBook& book);

/// For each lead device of the plan, ascending, the place in `first` of the device of column 0 that
/// does the same; `first` are the lead devices of column 0, ascending.
std::vector<int> stand_ins(const Plan& plan, int columns, const std::vector<int>& first);

/// Whether blocks of so many consecutive devices, from device 0 on, are alike in the cluster's
/// links: the way from place x of one block to place x of another is the same for every x. Devices
/// at the end that are too few for a block do not count.
bool has_alike_blocks(const Cluster& cluster, int devices);

}  // namespace stagecraft
