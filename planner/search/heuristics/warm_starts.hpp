// Warm starts of the exact search: the usual choices and the plans of other planners, if the
// problem allows them.

#pragma once

#include <vector>

#include "planner/search/evaluator.hpp"

namespace stagecraft {

/// Whether the problem allows the plan, even outside the space, and its stages can be trained:
/// stages that share parameters must have the same tensor-parallel degree.
bool is_wanted(const Space& space, const Plan& plan);

/// Whether the plan has the shape of the space's plans: stages in the problem's order of layers, on
/// consecutive devices or groups of them, all with the same tensor-parallel degree.
bool lies_in_space(const Space& space, const Plan& plan);

/// The plans of the usual choices and of the portfolio of other planners that are wanted and fit. A
/// search of little effort leaves out plans outside its space, since it has no time to improve
/// them.
std::vector<Candidate> starting_plans(const Space& space, const SearchControl& control);

}  // namespace stagecraft
