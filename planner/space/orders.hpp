// Topological orders of a branching model's layers, in which they may be cut into stages. A search
// covers one order; another order allows other stages and may have cheaper boundaries.

#pragma once

#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The problem with its layers in this order, a permutation of their indices, which its plans
/// record.
Problem in_order(Problem problem, const std::vector<int>& order);

/// At most `most` different topological orders other than the problem's own. All of them if there
/// are no more; else those of the plans, fastest plan first, then two depth-first orders, with the
/// first or the last branch first. Empty if there is only one order, or if stages are fixed, since
/// those refer to the problem's own order.
std::vector<std::vector<int>> other_orders(const Problem& problem,
                                           const std::vector<Candidate>& plans, std::size_t most);

/// Whether the layers have more than `than` topological orders.
bool has_more_orders(const Model& model, std::size_t than);

}  // namespace stagecraft
