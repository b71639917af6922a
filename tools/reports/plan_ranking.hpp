// Several plans side by side: a ranking, or a front of memory and throughput.

#pragma once

#include <string>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// How much more a plan takes than the best, or costs where that is the objective: 0.034.
double worse_by(const Problem& problem, const Candidate& candidate, const Candidate& best);

/// What sets the plans apart: their words, step or cost, gap to the best, and peak; devices where
/// they differ, and stages where only these do.
std::string ranking_table(const Problem& problem, const SearchResult& search, bool unicode);

/// The same for a front, with bars of memory and throughput.
std::string front_table(const Problem& problem, const SearchResult& search, bool unicode);

}  // namespace stagecraft
