// Sentences on a plan's bound: what was proved, for which plans, and what was not tried.

#pragma once

#include <string>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Whether the bound leaves out plans that may be faster, so that the output must name the plans
/// that it covers.
bool has_scope(const SearchResult& search);

/// "within 1.0 % of the optimum (6 simulated, 766 discarded) among plans …". For a Pareto front:
/// whether other plans may be better in both.
std::string certificate_sentence(const Problem& problem, const SearchResult& search, bool is_front);

/// The cause of a gap, in one line: the lowest bound, and what its relaxation ignores; empty
/// without a gap.
std::string looseness_sentence(const SearchResult& search);

}  // namespace stagecraft
