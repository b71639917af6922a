// Plans to start the exact search from: what people and other planners would choose, as far as the
// problem allows it.

#pragma once

#include <vector>

#include "planner/search/evaluator.hpp"

namespace stagecraft {

/// Whether the problem allows the plan, be it in the space or not, and its stages can be trained:
/// where layers share parameters their stages have one tensor-parallel degree.
bool is_wanted(const Space& space, const Plan& plan);

/// The space has stages along the problem's order, on consecutive devices (or groups of them), all
/// with the same tensor-parallel degree.
bool lies_in_space(const Space& space, const Plan& plan);

/// The usual choices and the portfolio, those that are wanted and fit. A search with little effort
/// leaves those out that do not lie in its space: it could not make them better.
std::vector<Candidate> starting_plans(const Space& space, const SearchControl& control);

}  // namespace stagecraft
