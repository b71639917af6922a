// Orders in which the layers of a branching model may be cut into stages. One search knows one
// order; between two others there can be stages that it does not know, and cheaper boundaries.

#pragma once

#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The problem with its layers in this order, a permutation of their indices; plans name it.
Problem in_order(Problem problem, const std::vector<int>& order);

/// Topological orders other than the problem's own, at most so many, no two the same: all of them
/// if they are no more; else those of the plans, the fastest plan's first, then two that follow
/// each branch to its end, with the first or the last branch first. None where there is only one
/// order, or stages are fixed, which speak of the problem's own.
std::vector<std::vector<int>> other_orders(const Problem& problem,
                                           const std::vector<Candidate>& plans, std::size_t most);

/// Whether the layers have more than so many topological orders.
bool has_more_orders(const Model& model, std::size_t than);

}  // namespace stagecraft
